"""Upserts and deletes that die at any call, or meet a store that loses answers: all of a change is there afterwards, or none."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import NeedlefishError
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.store import RetriedStore, Store, layered, open_store
from needlefish.store.shapes import MEMORY
from needlefish.table.history import read_history
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, delete_where, upsert_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Fault, FaultyStore, Schedule, crash_everywhere, seeded
from needlefish.testing.tables import append_rows, build_table, scan_table
from needlefish.timeline import read_newest
from needlefish.timeline.heartbeat import HEARTBEAT_PREFIX

_numbers = count()
# Where a change that did not come to its end may leave things; a clean removes them.
ORPHANS = ("data/", "_needlefish/metadata/", "_needlefish/index/", "_needlefish/work/")
TRUTH = ("_needlefish/log/", "_needlefish/checkpoints/", HEARTBEAT_PREFIX)
Row = dict[str, Any]
Change = Callable[[RetriedStore, TableState], object]


def rows_of(first: int, end: int, note: str, n: int = 5) -> list[Row]:
    return [{"id": number, "host": "ab"[number % 2], "n": n, "s": f"{note} {number}"} for number in range(first, end)]


def make() -> RetriedStore:
    """Two versions that overlap in nothing, in two partitions, with an index on the key."""
    store = open_store(StoreConfig(uri=f"memory://upsert-crash-{next(_numbers)}"))
    state = build_table(
        store,
        "id int64, host string, n int64, s string",
        "id",
        rows_of(0, 12, "old"),
        partition_by="host",
        indexes=None,
        properties={"chunkset_rows": 4, "granule_rows": 2},
    )
    append_rows(store, state, rows_of(12, 16, "old", n=9))
    return store


def upsert(store: RetriedStore, state: TableState) -> object:
    """Replaces, inserts, deletes, and comes too late for some."""
    rows = [row | {"gone": row["id"] in (9, 10)} for row in rows_of(8, 20, "new", n=7)]
    return upsert_table(store, state, rows, order_by="n", deleted_by="gone", batch=("etl", 1))


def upsert_present(store: RetriedStore, state: TableState) -> object:
    rows = [{"id": row["id"], "host": row["host"], "s": row["s"]} for row in rows_of(8, 14, "new")]
    return upsert_table(store, state, rows, columns="present")


def delete(store: RetriedStore, state: TableState) -> object:
    return delete_table(store, state, [{"id": row["id"], "host": row["host"]} for row in rows_of(3, 20, "")])


def delete_old(store: RetriedStore, state: TableState) -> object:
    return delete_where(store, state, "n = 5 and id > 3")


CHANGES = [upsert, upsert_present, delete, delete_old]


def shown(store: Store, state: TableState) -> dict[int, Row]:
    found = scan_table(store, state)[0].to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    assert state.totals.visible_rows == len(found)
    return {row["id"]: row for row in found}


def paths(store: Store) -> set[str]:
    return {found.path for found in store.list()}


def over(bare: Store, retry: RetryPolicy, schedule: Schedule | None = None) -> RetriedStore:
    """The layers, which an upsert wants, around a store that fails."""
    runtime = Runtime(clock=FakeClock())
    bare = bare if schedule is None else FaultyStore(bare, schedule, runtime)
    return layered(bare, config=StoreConfig(uri=bare.uri, retry=retry), runtime=runtime, shape=MEMORY)


def before_and_after(change: Change) -> tuple[dict[int, Row], dict[int, Row]]:
    store = make()
    before = shown(store, read_newest(store))
    change(store, read_newest(store))
    return before, shown(store, read_newest(store))


@pytest.mark.parametrize("change", CHANGES)
def test_dying_at_any_call_leaves_the_rows_before_or_after(change: Change) -> None:
    before, after = before_and_after(change)
    assert before != after
    known: list[set[str]] = []

    def fresh() -> Store:
        store = make()
        known.append(paths(store))
        return store

    seen, calls = [], 0
    for point in crash_everywhere(fresh, lambda dying: change(over(dying, RetryPolicy(attempts=1)), read_newest(dying))):
        store = open_store(StoreConfig(uri=point.store.uri))
        state = read_newest(store)
        found = shown(store, state)
        assert found in (before, after)
        seen.append(found == after)
        calls = point.number
        left = paths(store) - known[-1]
        # A change that did not happen leaves steps of its instant at most.
        assert found == after or [entry.version for entry in read_history(store, state, 1)] == [2]
        assert all(path.startswith((*ORPHANS, *TRUTH)) for path in left)
        # Whoever finds what it left knows whose it is.
        attempts = tuple(entry.instant for entry in read_history(store, state, steps=True) if entry.instant is not None)
        orphans = [path for path in left if path.startswith(ORPHANS)]
        assert all(any(part.startswith(attempts) for part in path.split("/")) for path in orphans)
        _goes_on(store, state, found, deep=point.number % 4 == 0)
    # The last few calls, after the entry itself, remove the change's work and tidy up.
    assert seen == sorted(seen)
    assert calls > 10
    assert set(seen) == {True, False}


def _goes_on(store: RetriedStore, state: TableState, found: dict[int, Row], *, deep: bool) -> None:
    """A later upsert stands on what was left, and verify sees nothing wrong."""
    rows = rows_of(6, 14, "later", n=20)
    later, result = upsert_table(store, state, rows, order_by="n")
    assert shown(store, later) == found | {row["id"]: row for row in rows}
    assert (result.inserted, result.late) == (sum(row["id"] not in found for row in rows), 0)
    if deep:
        assert not verify_table(Snapshot(store=store, state=later)).problems


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.UNAVAILABLE])
def test_a_store_that_fails_now_and_then_is_asked_again(change: Change, seed: int, fault: Fault) -> None:
    _, after = before_and_after(change)
    inner = make()
    store = over(inner, RetryPolicy(attempts=12, base_seconds=0.001), seeded(seed, {fault: 0.15}))
    change(store, read_newest(inner))
    state = read_newest(inner)
    assert shown(inner, state) == after
    # Nothing was done twice: of a claim and of a commit whose answers were lost there is one entry each.
    assert state.version == read_newest(make()).version + 2
    assert (state.instants, [entry.action for entry in read_history(inner, state, 2, steps=True)][1]) == ((), "claim")
    assert not verify_table(Snapshot(store=inner, state=state)).problems


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("seed", range(6))
def test_a_store_that_fails_too_often_leaves_the_rows_before_or_after(change: Change, seed: int) -> None:
    before, after = before_and_after(change)
    inner = make()
    store = over(inner, RetryPolicy(attempts=1), seeded(seed, {Fault.LOST_RESPONSE: 0.04, Fault.UNAVAILABLE: 0.04}))
    try:
        change(store, read_newest(inner))
    except NeedlefishError:
        assert shown(inner, read_newest(inner)) in (before, after)
    else:
        assert shown(inner, read_newest(inner)) == after
    assert not verify_table(Snapshot(store=inner, state=read_newest(inner))).problems
