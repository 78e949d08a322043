"""Rows that tasks get in any order, and keys that several tasks have: against a dict, without Spark."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, InvalidError
from needlefish.model.log import Batch, TableState
from needlefish.store import RetriedStore, open_store
from needlefish.table.delivered import Delivery, DeliveryTask, commit_delivery, repeats, sorting
from needlefish.table.delivered.task import results_of
from needlefish.table.evolve import Changes, evolve
from needlefish.table.point.runs import indexed_keys
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import Written, collect
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table
from needlefish.timeline import read_newest, read_state_at

SCHEMA = "id int64, host string, n int64, v string"
SMALL = {"chunkset_rows": 5, "granule_rows": 2}
Row = dict[str, Any]
Key = tuple[object, ...]

_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    options: Mapping[str, Any]
    key: Callable[[Row], Key] = lambda row: (row["id"],)


KINDS = {
    "plain": Kind(options={"indexes": None}),
    "by column": Kind(options={"partition_by": "host"}, key=lambda row: (row["id"], row["host"])),
    "global": Kind(options={"partition_by": "host", "properties": SMALL | {"global_keys": True}}),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(0, 12), "host": st.sampled_from(["a", "b", None]), "n": st.one_of(st.none(), st.integers(0, 3))}
    ),
    max_size=20,
)


def new_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://delivered-{next(_numbers)}"))


def deliver(store: RetriedStore, state: TableState, tasks: Sequence[Sequence[Row]], delivery: Delivery) -> TableState:
    return commit_delivery(store, state, written(store, state, tasks, delivery), delivery).state


def written(store: RetriedStore, state: TableState, tasks: Sequence[Sequence[Row]], delivery: Delivery) -> Written:
    task = DeliveryTask(
        definition=state.definition,
        store=store.config,
        version=state.version,
        indexed_keys=indexed_keys(state),
        keeps_last=delivery.keeps_last,
        order_by=None if delivery.order_by is None else delivery.order_by.id,
    )
    schema = state.definition.schema.to_arrow()
    batches = [pa.Table.from_pylist(list(rows), schema=schema).to_batches(3) for rows in tasks]
    return collect(results_of([task.within(store, some) for some in batches]))


def upserting(state: TableState, *, ordered: bool, batch: Batch | None = None) -> Delivery:
    return Delivery(operation="upsert", order_by=state.definition.schema.field("n", "order_by") if ordered else None, batch=batch)


def rows_of(store: RetriedStore, state: TableState, kind: Kind) -> dict[Key, Row]:
    found = scan_table(store, state)[0].to_pylist()
    by_key = {kind.key(row): row for row in found}
    assert len(by_key) == len(found)
    return by_key


def rank(row: Row) -> tuple[bool, int]:
    return row["n"] is not None, row["n"] or 0


def taken(rows: Sequence[Row], kind: Kind, *, ordered: bool, over: Mapping[Key, Row]) -> dict[Key, Row]:
    found = dict(over)
    for row in rows:
        stored = found.get(kind.key(row))
        if stored is None or not ordered or rank(row) >= rank(stored):
            found[kind.key(row)] = row
    return found


@pytest.mark.parametrize("name", KINDS)
@given(first=ROWS, tasks=st.lists(ROWS, max_size=4), ordered=st.booleans(), pieces=st.booleans(), late=ROWS)
@settings(max_examples=15)
def test_upserts_of_any_tasks(name: str, first: list[Row], tasks: list[list[Row]], ordered: bool, pieces: bool, late: list[Row]) -> None:
    kind, store = KINDS[name], new_store()
    options = {"properties": SMALL} | dict(kind.options)
    state, _ = upsert_table(store, build_table(store, SCHEMA, "id", **options), [row | {"v": "first"} for row in first])
    named = [[row | {"v": f"{task} {number}"} for number, row in enumerate(rows)] for task, rows in enumerate(tasks)]
    expected = taken([row for rows in named for row in rows], kind, ordered=ordered, over={})
    with pytest.MonkeyPatch.context() as patch:
        if pieces:
            patch.setattr(sorting, "PIECE_BYTES", 150)
            patch.setattr(sorting, "_BATCH_BYTES", 1)
            patch.setattr(sorting, "_LEAST_ROWS", 2)
            patch.setattr(repeats, "SLICE_ROWS", 4)
        delivery = upserting(state, ordered=ordered)
        made = written(store, state, named, delivery)
        # Somebody else commits before this one does.
        between, _ = upsert_table(store, state, [row | {"v": "between"} for row in late])
        before = rows_of(store, between, kind)
        commit_delivery(store, state, made, delivery)
    done = read_newest(store)
    assert rows_of(store, done, kind) == taken(list(expected.values()), kind, ordered=ordered, over=before)
    assert verify_table(Snapshot(store=store, state=done)).problems == ()
    assert rows_of(store, between, kind) == before


@pytest.mark.parametrize("pieces", [False, True])
def test_appends_of_any_tasks_are_found(pieces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if pieces:
        monkeypatch.setattr(sorting, "PIECE_BYTES", 500)
        monkeypatch.setattr(repeats, "SLICE_ROWS", 10)
    store = new_store()
    state = build_table(store, SCHEMA, "id", indexes=None, properties=SMALL, partition_by="host")
    rows = [{"id": number, "host": "ab"[number % 2], "n": number, "v": "x"} for number in range(100)]
    Random(7).shuffle(rows)
    done = deliver(store, state, [rows[:40], [], rows[40:]], Delivery())
    assert sorted(row["id"] for row in scan_table(store, done)[0].to_pylist()) == list(range(100))
    assert find_table(store, done, id=[3, 40])[0].num_rows == 2
    assert verify_table(Snapshot(store=store, state=done)).problems == ()


@pytest.mark.parametrize("operation", ["append", "overwrite"])
@pytest.mark.parametrize("tasks", [[[5, 5]], [[1, 5], [5, 9]], [[1, 9], [5], [2, 5]]])
def test_a_key_that_comes_twice_is_refused(operation: Any, tasks: list[list[int]]) -> None:
    store = new_store()
    state = build_table(store, SCHEMA, "id", [{"id": 77, "host": "a", "n": 0, "v": "old"}], properties=SMALL)
    rows = [[{"id": number, "host": "a", "n": 0, "v": "x"} for number in task] for task in tasks]
    with pytest.raises(InvalidError, match=r"the key \{'id': 5\} more than once"):
        deliver(store, state, rows, Delivery(operation=operation))
    assert read_newest(store).version == state.version


def test_the_same_key_in_two_partitions_is_two_rows_unless_keys_are_global() -> None:
    tasks = [[{"id": 5, "host": "a", "n": 0, "v": "x"}], [{"id": 5, "host": "b", "n": 0, "v": "x"}]]
    store = new_store()
    state = build_table(store, SCHEMA, "id", partition_by="host")
    assert scan_table(store, deliver(store, state, tasks, Delivery()))[0].num_rows == 2
    store = new_store()
    state = build_table(store, SCHEMA, "id", partition_by="host", properties={"global_keys": True})
    with pytest.raises(InvalidError, match="more than once"):
        deliver(store, state, tasks, Delivery())


def test_hashes_that_collide_are_no_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    monkeypatch.setattr(repeats, "key_hashes", lambda keys, fields: np.zeros(keys.num_rows, np.uint64))
    store = new_store()
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    tasks = [[{"id": number, "host": "a", "n": 0, "v": "x"} for number in range(start, 20, 2)] for start in (0, 1)]
    assert scan_table(store, deliver(store, state, tasks, Delivery()))[0].num_rows == 20


def test_files_whose_keys_lie_apart_are_not_read_again() -> None:
    store = new_store()
    state = build_table(store, SCHEMA, "id", properties={"chunkset_rows": 100})
    rows = [{"id": number, "host": "a", "n": 0, "v": "x"} for number in range(1000)]
    apart, mixed = [rows[:500], rows[500:]], [rows[::2], rows[1::2]]
    used = []
    for tasks in (apart, mixed):
        made = written(store, state, tasks, Delivery())
        before = store.meter.snapshot()
        repeats.refuse_repeats(store, state.definition, [entry.info for entry in made.entries])
        used.append((store.meter.snapshot() - before).requests)
    assert used[0] == 0 < used[1]


def test_an_overwrite_hides_what_is_there_and_what_comes_meanwhile() -> None:
    store = new_store()
    state = build_table(store, SCHEMA, "id", [{"id": number, "host": "a", "n": 0, "v": "old"} for number in range(12)], properties=SMALL)
    state, _ = delete_table(store, state, [{"id": 3}])
    rows = [{"id": 5, "host": "b", "n": 1, "v": "new"}]
    made = written(store, state, [rows], Delivery(operation="overwrite"))
    between = append_rows(store, state, [{"id": 50, "host": "a", "n": 0, "v": "between"}])
    done = commit_delivery(store, state, made, Delivery(operation="overwrite")).state
    assert scan_table(store, done)[0].to_pylist() == rows
    assert done.totals.visible_rows == 1
    assert verify_table(Snapshot(store=store, state=done)).problems == ()
    assert scan_table(store, read_state_at(store, between.version, done))[0].num_rows == 12
    emptied = deliver(store, done, [], Delivery(operation="overwrite"))
    assert scan_table(store, emptied)[0].num_rows == 0
    again = deliver(store, emptied, [], Delivery(operation="overwrite"))
    assert again.totals.visible_rows == 0


@pytest.mark.parametrize("operation", ["append", "overwrite", "upsert"])
def test_a_batch_that_was_delivered_does_nothing_again(operation: Any) -> None:
    store = new_store()
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    rows = [[{"id": 1, "host": "a", "n": 0, "v": "x"}]]
    delivery = Delivery(operation=operation, batch=Batch(application="etl", number=17))
    first = deliver(store, state, rows, delivery)
    # The writer may know of the batch, or learn of it when it commits.
    for base in (first, state):
        made = written(store, base, rows, delivery)
        done = commit_delivery(store, base, made, delivery)
        assert done.repeated
        assert scan_table(store, read_newest(store))[0].num_rows == 1
    assert read_newest(store).totals.rows == 1


def test_a_table_that_was_redefined_meanwhile_is_a_conflict() -> None:
    store = new_store()
    state = build_table(store, SCHEMA, "id", properties=SMALL)
    made = written(store, state, [[{"id": 1, "host": "a", "n": 0, "v": "x"}]], Delivery())
    evolve(store, state, Changes(add={"extra": "string"}))
    with pytest.raises(ConflictError):
        commit_delivery(store, state, made, Delivery())


def test_a_null_in_the_key_is_refused_and_the_refusal_travels() -> None:
    store = new_store()
    state = build_table(store, SCHEMA, "id")
    task = DeliveryTask(definition=state.definition, store=store.config, version=state.version)
    batch = pa.record_batch({"id": pa.array([1, None]), "host": pa.array(["a", "b"])})
    message = task.within(store, [batch])
    with pytest.raises(InvalidError, match="null in key column 'id'"):
        collect(results_of([message]))


@pytest.mark.parametrize("pieces", [False, True])
def test_floats_sort_as_keys_and_orders_do(pieces: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if pieces:
        monkeypatch.setattr(sorting, "PIECE_BYTES", 60)
        monkeypatch.setattr(sorting, "_LEAST_ROWS", 1)
        monkeypatch.setattr(sorting, "_BATCH_BYTES", 1)
    store = new_store()
    state = build_table(store, "k double, t double, v int64", "k")
    nan = math.nan
    rows = [(nan, 1.0), (0.0, nan), (-0.0, 5.0), (nan, None), (1.0, None), (1.0, -1.0), (-math.inf, None), (nan, 0.5)]
    delivered = [{"k": k, "t": t, "v": number} for number, (k, t) in enumerate(rows)]
    delivery = Delivery(operation="upsert", order_by=state.definition.schema.field("t", "order_by"))
    for tasks in ([delivered], [delivered[:4], delivered[4:]], [[row] for row in delivered]):
        found = scan_table(store, deliver(store, state, tasks, delivery))[0].to_pylist()
        assert sorted(row["v"] for row in found) == [0, 1, 5, 6]


def test_pieces_leave_no_file_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(sorting, "PIECE_BYTES", 100)
    spilled: list[Path] = []
    original = sorting._spilled
    monkeypatch.setattr(sorting, "_spilled", lambda rows, file: spilled.append(file) or original(rows, file))
    store = new_store()
    state = build_table(store, SCHEMA, "id")
    deliver(store, state, [[{"id": number, "host": "a", "n": 0, "v": "x"} for number in range(60)]], Delivery())
    assert len(spilled) > 3
    assert all(file.is_relative_to(tmp_path) for file in spilled)
    assert not list(tmp_path.iterdir())
