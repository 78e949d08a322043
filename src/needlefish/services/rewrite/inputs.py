"""The chunksets that a rewrite reads: their infos, their hidden rows, and the rows that are left."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from needlefish.errors import ConflictError
from needlefish.format.files_record import decode_files
from needlefish.format.run import KEY
from needlefish.index import newest
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.schema import Field
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.skips import Hidden, shown_rows, visible_granules, with_hidden
from needlefish.table.snapshot import Snapshot

# Rows decoded at once, over all inputs that are open together: reads of single granules would be many where inputs are few.
_ROWS_AT_ONCE = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One chunkset and the rows of it that are hidden."""

    info: ChunksetInfo
    hidden: Hidden | None

    @property
    def hidden_rows(self) -> int:
        return 0 if self.hidden is None else self.hidden.count(0, self.info.rows)

    @property
    def visible(self) -> int:
        return self.info.rows - self.hidden_rows


def live_infos(snapshot: Snapshot, keys: Iterable[str]) -> list[ChunksetInfo]:
    """The chunksets of these keys, in their order; all of them must be live."""
    wanted = list(keys)
    found: dict[str, ChunksetInfo] = {}
    for records in newest.get(snapshot.store, snapshot.runs("files"), wanted):
        found.update(zip(records[KEY].to_pylist(), decode_files(records), strict=True))
    gone = [key for key in wanted if key not in found]
    if gone:
        more = f" (and {len(gone) - 1} more)" if len(gone) > 1 else ""
        raise ConflictError(
            f"{snapshot.store.uri}: the file with key {gone[0]}{more} is no longer part of version {snapshot.state.version}; plan again"
        )
    return [found[key] for key in wanted]


def inputs_of(snapshot: Snapshot, keys: Iterable[str]) -> list[Input]:
    """The same with their hidden rows. Memory holds a bit for each row at most."""
    return [Input(info=info, hidden=hidden) for info, hidden in with_hidden(snapshot, live_infos(snapshot, keys))]


def rows_of(snapshot: Snapshot, one: Input, fields: Sequence[Field], open_inputs: int = 1) -> Iterator[pa.Table]:
    """The visible rows under today's columns, a few granules at a time: one, where many inputs are open together."""
    granules = visible_granules(one.info, one.hidden)
    if not granules:
        return
    chunkset = open_chunkset(snapshot.store, snapshot.state.definition, one.info)
    for numbers in _stretches(one.info, granules, _ROWS_AT_ONCE // open_inputs):
        rows = chunkset.read(numbers, fields)
        yield rows if one.hidden is None else rows.filter(pa.array(shown_rows(one.info, one.hidden, numbers)))


def _stretches(info: ChunksetInfo, granules: Sequence[int], most_rows: int) -> Iterator[list[int]]:
    taken: list[int] = []
    rows = 0
    for number in granules:
        if taken and rows + info.granules[number].rows > most_rows:
            yield taken
            taken, rows = [], 0
        taken.append(number)
        rows += info.granules[number].rows
    yield taken
