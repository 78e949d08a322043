"""The result of `table.changes(...)`: an iterable of record batches, version by version."""

from collections.abc import Iterator

import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, Usage
from needlefish.table.changes import change_schema, changes_between, share_rows, shares_of
from needlefish.timeline import read_state_at


class ChangedRows:
    """Rows come as they are asked for, oldest version first, in bounded memory; every iteration reads anew."""

    def __init__(self, store: RetriedStore, base: TableState | None, state: TableState, *, before: bool) -> None:
        """Use `Table.changes`. None for `base` is a table that has nothing yet."""
        self._store = store
        self._base = base
        self._state = state
        self._before = before
        self.schema: pa.Schema = change_schema(state.definition)

    @property
    def usage(self) -> Usage:
        """What was read so far."""
        return self._store.meter.snapshot()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        definition = self._state.definition
        for change in changes_between(self._store, self._base, self._state.version):
            for share in shares_of(change, definition):
                yield from share_rows(self._store, definition, share, before=self._before)

    def to_arrow(self) -> pa.Table:
        """All rows at once: for results that fit in memory."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pylist(self) -> list[dict[str, object]]:
        return list(self.to_arrow().to_pylist())

    def count(self) -> int:
        """How many rows there are, without keeping them."""
        return sum(batch.num_rows for batch in self)


def changes_of(store: RetriedStore, newest: TableState, first: int | None, last: int | None, *, before: bool) -> ChangedRows:
    """Changes after version `first` up to version `last`, both of a table whose versions reach up to `newest`."""
    for name, value in (("from_version", first), ("to_version", last)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise InvalidError(f"{name} is {value!r}; give the number of a version, or None")
    state = newest if last is None else read_state_at(store, last, newest)
    if first is not None and first > state.version:
        raise InvalidError(f"from_version is {first}, after version {state.version}; give the older version first")
    base = None if first is None else read_state_at(store, first, newest)
    return ChangedRows(store, base, state, before=before)
