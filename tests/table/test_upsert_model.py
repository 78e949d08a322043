"""Random upserts, patches and deletes against a dict: a stale writer heals, batches repeat, runs merge, and old versions stay as they were.

The model is the meaning of it all. Commits count in the order of the log. Of rows with one key the greatest `order_by` counts,
of equal ones or without it the later; a value is newer than none. A delete leaves no trace that a later row could lose against.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.services.merge import merge
from needlefish.store import RetriedStore, open_store
from needlefish.table.history import read_history
from needlefish.table.point.declare import PointIndex
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag import LocateTask, ProbeTask, TagPlan, tag_fields
from needlefish.table.tag.parcel import PARCEL_SCHEMA
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, delete_where, upsert_table
from needlefish.testing.tables import build_table, find_table, scan_table
from needlefish.timeline import read_newest, read_state_at

SCHEMA = "id int64, host string, ts timestamp, n int64, v string"
COLUMNS = ("id", "host", "ts", "n", "v")
IDS = range(10)
DAYS = [datetime(2026, 11, 1, 5, tzinfo=UTC), datetime(2026, 11, 2, 23, tzinfo=UTC)]
SMALL = {"chunkset_rows": 5, "granule_rows": 2}
Row = dict[str, Any]
Key = tuple[object, ...]

_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A table to try, and what besides `id` makes a key there."""

    place: Callable[[Row], Key] = lambda row: ()
    partition_by: tuple[str, ...] = ()
    is_global: bool = False
    indexes: Sequence[PointIndex] | None = ()

    def key(self, row: Mapping[str, Any]) -> Key:
        return (row["id"], *self.place(dict(row)))


KINDS = {
    "plain": Kind(),
    "indexed": Kind(indexes=None),
    "by column": Kind(place=lambda row: (row["host"],), partition_by=("host",)),
    "by day, cuckoo": Kind(place=lambda row: (row["ts"].date(),), partition_by=("day(ts)",), indexes=[PointIndex("id", kind="cuckoo")]),
    "by bucket": Kind(partition_by=("bucket(id, 3)",), indexes=None),
    "global": Kind(partition_by=("host",), is_global=True),
    "global, indexed": Kind(partition_by=("host", "day(ts)"), is_global=True, indexes=[PointIndex("id"), PointIndex("v")]),
}

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(IDS),
            "host": st.sampled_from(["a", "b", None]),
            "ts": st.sampled_from(DAYS),
            "n": st.one_of(st.none(), st.integers(0, 3)),
        }
    ),
    max_size=9,
)


def rank(row: Row) -> tuple[bool, int]:
    return row.get("n") is not None, row.get("n") or 0


@dataclass
class Model:
    """What the table should hold, and what a change should say of itself."""

    kind: Kind
    rows: dict[Key, Row] = field(default_factory=dict)

    def upsert(self, rows: Sequence[Row], gone: Sequence[bool], *, ordered: bool) -> dict[str, int]:
        chosen: dict[Key, tuple[Row, bool]] = {}
        for row, deletes in zip(rows, gone, strict=True):
            key = self.kind.key(row)
            if not ordered or key not in chosen or rank(row) >= rank(chosen[key][0]):
                chosen[key] = row, deletes
        counts = dict.fromkeys(("inserted", "replaced", "late", "deleted", "nothing"), 0) | {"duplicates": len(rows) - len(chosen)}
        for key, (row, deletes) in chosen.items():
            counts[self._take(key, row, deletes=deletes, ordered=ordered)] += 1
        return {name: found for name, found in counts.items() if name != "nothing"}

    def _take(self, key: Key, row: Row, *, deletes: bool, ordered: bool) -> str:
        stored = self.rows.get(key)
        if stored is not None and ordered and rank(stored) > rank(row):
            return "nothing" if deletes else "late"
        if deletes:
            return "nothing" if self.rows.pop(key, None) is None else "deleted"
        self.rows[key] = (stored or dict.fromkeys(COLUMNS)) | row
        return "inserted" if stored is None else "replaced"

    def delete(self, keys: Iterable[Key]) -> int:
        return sum(self.rows.pop(key, None) is not None for key in keys)


class Upserts(RuleBasedStateMachine):
    kind: Kind

    @initialize()
    def create(self) -> None:
        self.store = open_store(StoreConfig(uri=f"memory://upsert-model-{next(_numbers)}"))
        properties = {**SMALL, "global_keys": self.kind.is_global}
        self.state = build_table(
            self.store, SCHEMA, "id", partition_by=self.kind.partition_by, indexes=self.kind.indexes, properties=properties
        )
        self.model = Model(self.kind)
        # Every state that a writer may have read, and the rows of every version.
        self.states = [self.state]
        self.versions: dict[int, dict[Key, Row]] = {0: {}}
        self.values = count()
        self.steps = 0
        self.last_batch = 0

    def _base(self, stale: int) -> TableState:
        """What a writer has read who then waited while others committed."""
        return self.states[max(0, len(self.states) - 1 - stale)]

    def _done(self, state: TableState) -> None:
        if state.version > self.state.version:
            self.state = state
            self.states.append(state)
            self.versions[state.version] = dict(self.model.rows)

    def _changed(self, state: TableState) -> bool:
        """Whether a version after the newest known one is more than a step: a writer with nothing to do leaves steps alone."""
        return read_history(self.store, state, 1)[0].version > self.state.version

    def _filled(self, rows: Sequence[Row]) -> list[Row]:
        return [row | {"v": f"v{next(self.values)}"} for row in rows]

    @rule(rows=ROWS, ordered=st.booleans(), stale=st.sampled_from([0, 0, 1, 3]), marked=st.booleans(), data=st.data(), batch=st.booleans())
    def upsert(self, rows: list[Row], ordered: bool, stale: int, marked: bool, data: st.DataObject, batch: bool) -> None:
        rows = self._filled(rows)
        gone = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))) if marked else [False] * len(rows)
        self.last_batch += batch
        state, result = upsert_table(
            self.store,
            self._base(stale),
            [row | {"gone": deletes or None} for row, deletes in zip(rows, gone, strict=True)] if marked else rows,
            order_by="n" if ordered else None,
            deleted_by="gone" if marked else None,
            batch=("model", self.last_batch) if batch else None,
        )
        assert not result.repeated
        if self._changed(state):
            expected = self.model.upsert(rows, gone, ordered=ordered)
            assert {name: getattr(result, name) for name in expected} == expected
        else:
            # Deletes alone, with nothing to hide in what it had read: it came before all that others have committed since.
            assert (result.inserted, result.replaced, result.late, result.deleted, batch) == (0, 0, 0, 0, False)
            assert Model(self.kind).upsert(rows, gone, ordered=ordered)["inserted"] == 0
        self._done(state)

    @rule(rows=ROWS, columns=st.sets(st.sampled_from(["host", "ts", "n", "v"])), ordered=st.booleans(), stale=st.sampled_from([0, 0, 1, 3]))
    def patch(self, rows: list[Row], columns: set[str], ordered: bool, stale: int) -> None:
        """Rows that lack columns: those that they replace keep theirs, new ones have nulls there."""
        needed = {found.name for found in tag_fields(self.state.definition)} | ({"n"} if ordered else set())
        present = [name for name in COLUMNS if name in columns | needed]
        given = [{name: row[name] for name in present} for row in self._filled(rows)]
        if not given:
            return
        state, result = upsert_table(self.store, self._base(stale), given, order_by="n" if ordered else None, columns="present")
        if self._changed(state):
            expected = self.model.upsert(given, [False] * len(given), ordered=ordered)
            assert {name: getattr(result, name) for name in expected} == expected
        else:
            # All came too late in what it had read, so that there was nothing to write.
            assert (ordered, result.inserted, result.replaced, result.late) == (True, 0, 0, len({self.kind.key(row) for row in given}))
        self._done(state)

    @rule(rows=ROWS, stale=st.integers(0, 3))
    @precondition(lambda self: self.last_batch > 0)
    def replay(self, rows: list[Row], stale: int) -> None:
        state, result = upsert_table(self.store, self._base(stale), self._filled(rows), batch=("model", self.last_batch))
        assert (result.repeated, result.inserted, result.replaced) == (True, 0, 0)
        assert not self._changed(read_newest(self.store))
        self._done(state)

    @rule(rows=ROWS, stale=st.sampled_from([0, 0, 1, 3]))
    def delete(self, rows: list[Row], stale: int) -> None:
        names = [found.name for found in tag_fields(self.state.definition)]
        state, result = delete_table(self.store, self._base(stale), [{name: row[name] for name in names} for row in rows])
        if self._changed(state):
            keys = {self.kind.key(row) for row in rows}
            deleted = self.model.delete(keys)
            assert (result.deleted, result.absent, result.duplicates) == (deleted, len(keys) - deleted, len(rows) - len(keys))
        else:
            assert result.deleted == 0
        self._done(state)

    @rule(stale=st.sampled_from([0, 0, 1, 3]), least=st.integers(0, 4), id_=st.sampled_from(IDS))
    def delete_matching(self, stale: int, least: int, id_: int) -> None:
        state, result = delete_where(self.store, self._base(stale), f"n >= {least} or id = {id_}")
        if self._changed(state):
            keys = [key for key, row in self.model.rows.items() if row["id"] == id_ or (row["n"] is not None and row["n"] >= least)]
            assert result.deleted == self.model.delete(keys)
        else:
            assert result.deleted == 0
        self._done(state)

    @rule()
    def merge_runs(self) -> None:
        self._done(merge(self.store, self.state))

    @rule()
    def reopen(self) -> None:
        self.store = open_store(self.store.config)
        self.state = read_newest(self.store)
        assert self.state.version == max(self.versions)

    @rule(back=st.integers(1, 8))
    def travel(self, back: int) -> None:
        known = sorted(self.versions)
        version = known[max(0, len(known) - 1 - back)]
        then = read_state_at(self.store, version, self.state)
        assert self._scanned(then) == self.versions[version]
        assert self._found(then) == self.versions[version]

    def _keyed(self, rows: pa.Table) -> dict[Key, Row]:
        found = {self.kind.key(row): row for row in rows.to_pylist()}
        assert len(found) == rows.num_rows, "a key is visible once"
        return found

    def _scanned(self, state: TableState) -> dict[Key, Row]:
        return self._keyed(scan_table(self.store, state)[0])

    def _found(self, state: TableState) -> dict[Key, Row]:
        """All keys, and some that the table never has."""
        return self._keyed(find_table(self.store, state, id=[*IDS, 97, 98])[0])

    @invariant()
    def table_is_the_dict(self) -> None:
        self.steps += 1
        expected = self.model.rows
        assert self._scanned(self.state) == expected
        assert self._found(self.state) == expected
        assert self.state.totals.visible_rows == len(expected)
        newest = read_history(self.store, self.state, 1)[0]
        assert newest.prev_max in (None, newest.version - 1)

    @invariant()
    def tags_tell_where(self) -> None:
        if self.steps % 3 == 0:
            assert tagged(self.store, self.state, self.kind) == {key: row["v"] for key, row in self.model.rows.items()}

    @invariant()
    def verify_finds_nothing(self) -> None:
        if self.steps % 5 == 0:
            found = verify_table(Snapshot(store=self.store, state=self.state))
            assert (found.problems, found.rows - found.skipped) == ((), len(self.model.rows))


def tagged(store: RetriedStore, state: TableState, kind: Kind) -> dict[Key, str | None]:
    """What lies at the place that a tag names, for every key that there can be."""
    asked = [{"id": id_, "host": host, "ts": ts} for id_ in IDS for host in ("a", "b", None) for ts in DAYS]
    fields = tag_fields(state.definition)
    rows = list({kind.key(row): {found.name: row[found.name] for found in fields} for row in asked}.values())
    plan = TagPlan(state=state, store=store.config, delivered=tuple(found.arrow_type for found in fields))
    given = pa.Table.from_pylist(rows, schema=pa.schema([found.to_arrow().with_nullable(True) for found in fields]))
    sent = pa.Table.from_batches(ProbeTask(plan=plan)(given.to_batches()), schema=PARCEL_SCHEMA).sort_by("file")
    found = pa.Table.from_batches(LocateTask(plan=plan)(sent.to_batches()), schema=plan.result_schema)
    return dict(_stored(store, place, kind) for place in found.to_pylist())


def _stored(store: RetriedStore, place: Row, kind: Kind) -> tuple[Key, str | None]:
    folder = "" if place["partition"] == "." else f"{place['partition']}/"
    rows = pq.read_table(BytesIO(store.get(f"data/{folder}{place['chunkset']}.parquet")))
    row = rows.slice(place["row"], 1).to_pylist()[0]
    return kind.key(row), row["v"]


@pytest.mark.parametrize("name", KINDS)
def test_any_changes_leave_what_the_model_says(name: str) -> None:
    machine = type("Upserts", (Upserts,), {"kind": KINDS[name]})
    run_state_machine_as_test(machine, settings=settings(max_examples=12, stateful_step_count=15))
