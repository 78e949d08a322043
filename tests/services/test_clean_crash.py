"""A clean that dies at any store call, and cleans after other work has died: the next one leaves no orphan and takes nothing alive."""

from collections.abc import Callable
from functools import cache

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import NotFoundError
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.services.clean import CleanOptions, clean
from needlefish.services.merge import merge
from needlefish.store import RetriedStore, Store, layered
from needlefish.store.shapes import MEMORY
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import crash_everywhere
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.services import execute_here, needed_objects, orphans, schedule_compaction
from needlefish.testing.tables import build_table, scan_table
from needlefish.timeline import read_newest, read_state_at

EXPIRE = CleanOptions(retained_versions=2, retained_seconds=0, grace_seconds=0)
# Of a worker whose beats nobody hears: no thread lives on after it died.
ALONE = Runtime(threads=False)


def opened(store: Store) -> RetriedStore:
    return layered(store, config=StoreConfig(uri=store.uri, retry=RetryPolicy(attempts=1)), shape=MEMORY)


@cache
def built() -> tuple[MemoryStore, dict[int, list[dict[str, object]]]]:
    """A table with rewritten files, merged runs and an orphan, and the rows of each of its versions."""
    bare = MemoryStore(FakeClock())
    store = opened(bare)
    rows = [{"id": number, "s": "old"} for number in range(6)]
    properties = {"granule_rows": 4, "checkpoint_interval": 5}
    state = build_table(store, "id int64, s string", "id", rows, indexes=(), properties=properties)
    for number in range(2):
        state, _ = upsert_table(store, state, [{"id": number, "s": "new"}])
    state, plan = schedule_compaction(store, state)
    state, _ = execute_here(store, state, plan.id)
    for number in range(5):
        state, _ = upsert_table(store, state, [{"id": number, "s": "newer"}])
    # Some kinds have enough runs to be merged by now.
    merged = merge(store, state)
    assert merged.version > state.version
    state = merged
    bare.put(f"data/{'a' * 48}.parquet", b"left behind")
    return bare, {version: rows_of(store, read_state_at(store, version, state)) for version in range(state.version + 1)}


def rows_of(store: RetriedStore, state: TableState) -> list[dict[str, object]]:
    return scan_table(store, state)[0].sort_by("id").to_pylist()


def make() -> Store:
    return built()[0].copy(FakeClock())


def check(store: RetriedStore, known: dict[int, list[dict[str, object]]], step: int = 1) -> TableState:
    """Readable versions are whole, and no other is; with `step`, of the former only the oldest and some more are read."""
    state = read_newest(store)
    for version, rows in known.items():
        if version >= state.oldest and (version - state.oldest) % step:
            continue
        if version >= state.oldest:
            assert rows_of(store, read_state_at(store, version, state)) == rows
        else:
            with pytest.raises(NotFoundError, match="was cleaned"):
                read_state_at(store, version, state)
    return state


def cleaned_later(bare: Store) -> tuple[RetriedStore, TableState]:
    """Long enough after a death for nobody to be taken for alive."""
    assert isinstance(bare, MemoryStore)
    later = FakeClock()
    later.advance(7_200)
    store = opened(bare.copy(later))
    clean(store, read_newest(store), EXPIRE, ALONE)
    return store, read_newest(store)


def test_a_clean_that_dies_anywhere_is_finished_by_the_next() -> None:
    _, known = built()
    points = 0
    for point in crash_everywhere(make, lambda store: clean(opened(store), read_newest(store), EXPIRE, ALONE)):
        check(opened(point.store), known, step=7)
        store, _ = cleaned_later(point.store)
        state = check(store, known)
        assert state.oldest == state.cleaned > 0
        assert not state.instants
        assert not orphans(store, state)
        assert needed_objects(store, state) <= {found.path for found in store.list()}
        points += 1
        if points % 20 == 0:
            assert not verify_table(Snapshot(store=store, state=state)).problems
    # Before and after each of its calls.
    assert points >= 2 * 60


def upserting(store: RetriedStore) -> None:
    upsert_table(store, read_newest(store), [{"id": 2, "s": "last"}, {"id": 9, "s": "last"}], runtime=ALONE)


def compacting(store: RetriedStore) -> None:
    state, plan = schedule_compaction(store, read_newest(store), runtime=ALONE)
    execute_here(store, state, plan.id, ALONE)


@pytest.mark.parametrize("work", [upserting, compacting])
def test_what_dead_work_left_is_gone_after_a_clean(work: Callable[[RetriedStore], None]) -> None:
    bare, known = built()
    before = known[max(known)]
    store = opened(bare.copy(FakeClock()))
    work(store)
    after = rows_of(store, read_newest(store))
    outcomes = set()
    for point in crash_everywhere(make, lambda store: work(opened(store))):
        store, state = cleaned_later(point.store)
        assert not state.instants
        assert not orphans(store, state)
        rows = rows_of(store, state)
        assert rows in (before, after)
        outcomes.add(rows == after)
    assert outcomes == {False, True} if before != after else outcomes == {True}
