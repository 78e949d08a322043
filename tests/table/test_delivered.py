"""Rows that tasks get in any order, and keys that several tasks have: against a dict, without Spark."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, FencedError, InvalidError
from needlefish.model.chunkset import DATA_PREFIX
from needlefish.model.instant import AttemptId
from needlefish.model.log import Batch, TableState
from needlefish.runtime import Runtime
from needlefish.services.clean import CleanOptions, clean
from needlefish.store import RetriedStore, layered, open_store
from needlefish.store.shapes import MEMORY
from needlefish.table.create import create_table
from needlefish.table.delivered import Delivery, DeliveryTask, commit_attempt, commit_delivery, repeats, sorting
from needlefish.table.delivered.task import results_of
from needlefish.table.evolve import Changes, evolve
from needlefish.table.point.runs import indexed_keys
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import Written, collect
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.explorer import explore
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.schedule import Outcome, World
from needlefish.testing.scheduler import Worker
from needlefish.testing.services import needed_objects
from needlefish.testing.switch_points import log_appends
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table
from needlefish.testing.timed_store import TimedStore
from needlefish.timeline import read_newest, read_state_at
from needlefish.timeline.detached import Detached, abandon
from needlefish.timeline.heartbeat import HEARTBEAT_PREFIX
from needlefish.timeline.replay import read_entries

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


ATTEMPT = AttemptId("00c0ffee00c0ffee")
# All that may go goes, however young it is.
AT_ONCE = CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=0)
OLD = [{"id": number, "host": "a", "n": 0, "v": "old"} for number in range(12)]
NEW = [[{"id": number, "host": "ab"[number % 2], "n": 1, "v": "new"} for number in numbers] for numbers in (range(20, 40), range(40, 50))]


def quiet() -> Runtime:
    return Runtime(clock=FakeClock(), threads=False)


@dataclass(kw_only=True)
class Attempt:
    """One delivery by several processes: each opens the store anew, and what they know of each other is what Spark would send."""

    bare: TimedStore
    clock: FakeClock
    state: TableState
    delivery: Delivery

    def opened(self) -> RetriedStore:
        return layered(self.bare, config=StoreConfig(uri=self.bare.uri), shape=MEMORY)

    @property
    def detached(self) -> Detached:
        return Detached(attempt=ATTEMPT, action=self.delivery.action, base=self.state.version)

    def task(self, rows: Sequence[Row]) -> bytes:
        task = DeliveryTask(
            definition=self.state.definition,
            store=StoreConfig(uri=self.bare.uri),
            version=self.state.version,
            keeps_last=self.delivery.keeps_last,
            detached=self.detached,
        )
        batches = pa.Table.from_pylist(list(rows), schema=self.state.definition.schema.to_arrow()).to_batches(3)
        return task.within(self.opened(), batches, quiet())

    def commit(self, messages: Sequence[bytes]) -> TableState:
        return commit_attempt(self.opened(), self.state, self.detached, results_of(messages), self.delivery, quiet())

    def clean(self) -> None:
        store = self.opened()
        clean(store, read_newest(store), AT_ONCE, quiet())

    def objects(self) -> set[str]:
        found = {found.path for found in self.bare.list() if found.path.rsplit("/", 1)[-1].startswith(ATTEMPT)}
        return found - {f"{HEARTBEAT_PREFIX}{ATTEMPT}"}

    def files(self) -> set[str]:
        return {path for path in self.objects() if path.startswith(DATA_PREFIX)}

    def said(self) -> list[str]:
        newest = read_newest(self.bare)
        found = [entry.instant for entry in read_entries(self.bare, max(newest.oldest, 1), newest.version)][::-1]
        return [step.step for step in found if step is not None and step.id == ATTEMPT]


def attempted(delivery: Delivery, **options: Any) -> Attempt:
    clock = FakeClock()
    bare = TimedStore(MemoryStore(clock), clock)
    store = layered(bare, config=StoreConfig(uri=bare.uri), shape=MEMORY)
    state = build_table(store, SCHEMA, "id", OLD, properties=SMALL, **options)
    return Attempt(bare=bare, clock=clock, state=state, delivery=delivery)


@pytest.mark.parametrize("operation", ["append", "overwrite", "upsert"])
def test_a_clean_between_tasks_and_commit_leaves_the_files_alone(operation: Any) -> None:
    attempt = attempted(Delivery(operation=operation), partition_by="host", indexes=None)
    messages = []
    for rows in NEW:
        messages.append(attempt.task(rows))
        written = attempt.objects()
        attempt.clock.advance(110)
        attempt.clean()
        assert attempt.objects() == written
    assert {path.split("/")[0] for path in written} == {"data", "_needlefish"}
    done = attempt.commit(messages)
    expected = [*([] if operation == "overwrite" else OLD), *NEW[0], *NEW[1]]
    store = attempt.opened()
    assert sorted(scan_table(store, done)[0].to_pylist(), key=lambda row: row["id"]) == expected
    assert verify_table(Snapshot(store=store, state=done)).problems == ()
    assert (done.instants, list(attempt.bare.list(HEARTBEAT_PREFIX))) == ((), [])
    assert attempt.said()[-1] == "completed"
    attempt.clean()
    assert needed_objects(store, read_newest(store)) <= {found.path for found in attempt.bare.list()}


def test_a_write_that_fell_silent_is_rolled_back_and_cannot_commit() -> None:
    attempt = attempted(Delivery())
    messages = [attempt.task(NEW[0])]
    assert attempt.files()
    attempt.clock.advance(121)
    attempt.clean()
    assert attempt.objects() == set()
    # A task that comes later must not begin the attempt again: what the first one wrote is gone.
    with pytest.raises(FencedError):
        attempt.task(NEW[1])
    with pytest.raises(FencedError, match="is over"):
        attempt.commit(messages)
    store = attempt.opened()
    left = read_newest(store)
    assert rows_of(store, left, KINDS["plain"]) == {(row["id"],): row for row in OLD}
    assert (left.instants, attempt.objects()) == ((), set())
    assert verify_table(Snapshot(store=store, state=left)).problems == ()


def test_a_task_after_the_commit_takes_nothing_with_it() -> None:
    """A second copy of a task begins when all is over; were it to begin the attempt again, a clean would roll the commit back."""
    attempt = attempted(Delivery())
    done = attempt.commit([attempt.task(rows) for rows in NEW])
    with pytest.raises(FencedError):
        attempt.task(NEW[0])
    attempt.clock.advance(100_000)
    attempt.clean()
    store = attempt.opened()
    assert scan_table(store, read_newest(store))[0].num_rows == scan_table(store, done)[0].num_rows == 42


def test_a_write_that_is_given_up_leaves_nothing_inflight_and_its_files_to_a_clean() -> None:
    attempt = attempted(Delivery())
    attempt.task(NEW[0])
    after = abandon(attempt.opened(), attempt.state, attempt.detached, "the write failed", quiet())
    assert (after.instants, attempt.said()) == ((), ["inflight", "rolled_back"])
    assert attempt.files()
    attempt.clean()
    assert attempt.objects() == set()
    assert rows_of(attempt.opened(), read_newest(attempt.bare), KINDS["plain"]) == {(row["id"],): row for row in OLD}


@pytest.mark.parametrize("tasks", [[[5, 5]], [[1, 9], [2, 9]]], ids=["a key that a task has twice", "a key that two tasks have"])
def test_a_delivery_that_is_refused_ends_its_attempt(tasks: list[list[int]]) -> None:
    attempt = attempted(Delivery())
    messages = [attempt.task([OLD[0] | {"id": 100 + number} for number in numbers]) for numbers in tasks]
    with pytest.raises(InvalidError, match="more than once"):
        attempt.commit(messages)
    left = read_newest(attempt.bare)
    assert (left.instants, left.totals, attempt.said()) == ((), attempt.state.totals, ["inflight", "rolled_back"])
    attempt.clean()
    assert attempt.objects() == set()


def test_without_rows_nothing_is_begun() -> None:
    attempt = attempted(Delivery())
    assert attempt.commit([attempt.task([]), attempt.task([])]) == attempt.state == read_newest(attempt.bare)
    attempt.delivery = Delivery(operation="overwrite")
    assert attempt.commit([attempt.task([])]).totals.visible_rows == 0
    assert attempt.said() == ["inflight", "completed"]


def test_a_batch_that_comes_again_ends_its_attempt_without_rows() -> None:
    attempt = attempted(Delivery(batch=Batch(application="etl", number=17)))
    append = replace(attempt.delivery)
    deliver(attempt.opened(), attempt.state, [NEW[0]], append)
    # The attempt reads the version before that.
    done = attempt.commit([attempt.task(NEW[0])])
    assert (done.instants, attempt.said()) == ((), ["inflight", "rolled_back"])
    assert scan_table(attempt.opened(), done)[0].num_rows == 32


def test_where_there_is_no_table_yet_the_commit_begins_the_attempt() -> None:
    attempt = attempted(Delivery())
    definition = attempt.state.definition
    store = new_store()
    task = DeliveryTask(definition=definition, store=store.config, version=0, detached=replace(attempt.detached, base=0), has_log=False)
    schema = definition.schema.to_arrow()
    messages = [task.within(store, pa.Table.from_pylist(rows, schema=schema).to_batches()) for rows in NEW]
    assert all(ATTEMPT in found.path for found in store.list())
    state = create_table(store, definition)
    done = commit_attempt(store, state, replace(attempt.detached, base=0), results_of(messages), Delivery())
    assert scan_table(store, done)[0].num_rows == 30
    assert (done.version, done.instants) == (2, ())


@dataclass(frozen=True, kw_only=True)
class Scene(World):
    attempt: Attempt


def test_tasks_commit_and_clean_in_every_order_of_their_log_appends() -> None:
    """Two tasks and a clean at once, then the commit: nothing of the tasks is missed."""

    def make() -> Scene:
        attempt = attempted(Delivery())
        return Scene(store=attempt.bare, clock=attempt.clock, attempt=attempt)

    def writing(rows: list[Row]) -> Callable[[Scene, Worker], object]:
        def write(scene: Scene, worker: Worker) -> object:
            attempt = scene.attempt
            task = DeliveryTask(
                definition=attempt.state.definition, store=worker.store().config, version=attempt.state.version, detached=attempt.detached
            )
            batches = pa.Table.from_pylist(rows, schema=attempt.state.definition.schema.to_arrow()).to_batches()
            return task.within(worker.store(), batches, worker.runtime())

        return write

    def cleaning(scene: Scene, worker: Worker) -> object:
        store = worker.store()
        return clean(store, read_newest(store), AT_ONCE, worker.runtime())[1]

    begun: list[bool] = []

    def check(scene: Scene, outcomes: list[Outcome]) -> None:
        outcomes[2].result()
        refused = [outcome.error for outcome in outcomes[:2] if outcome.error is not None]
        # The clean may take the version away that the tasks were about to read, but only before the first of them begins.
        assert all(isinstance(error, ConflictError) for error in refused)
        begun.append(not refused)
        if not refused:
            done = scene.attempt.commit([outcome.result() for outcome in outcomes[:2]])  # type: ignore[misc]
            assert scan_table(scene.attempt.opened(), done)[0].num_rows == 42

    explore(make, [writing(NEW[0]), writing(NEW[1]), cleaning], check, switches=None, relevant=log_appends)
    assert any(begun)
