"""Every service dies before and after each of its store calls: rows stay what they are, and a clean leaves nothing behind.

What a death left is looked at once: dying after a call and before the next leaves the same, and so do reads.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import ConflictError
from needlefish.model.instant import Instant, InstantId
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.services.build_index import build_here, build_index
from needlefish.services.clean import CleanOptions, clean
from needlefish.services.dead import dead_instants
from needlefish.services.execute import execute
from needlefish.services.merge import merge, plan_merges
from needlefish.services.rewrite import plan_clustering
from needlefish.services.rollback import roll_back
from needlefish.services.schedule import schedule
from needlefish.services.upkeep import cancel_plan
from needlefish.store import RetriedStore, Store, layered
from needlefish.store.shapes import MEMORY
from needlefish.table.point.declare import PointIndex, define_index
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import CrashPoint, SimulatedCrash, crash_everywhere
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.services import execute_here, local_worker, orphans, schedule_compaction
from needlefish.testing.tables import build_table, scan_table
from needlefish.timeline import read_newest, read_state_at

Row = dict[str, Any]
Rows = dict[int, Row]
# Two partitions with hidden rows and small files; nothing is kept for readers that are slow, and heartbeats expire after 2 s.
PROPERTIES = {
    "granule_rows": 4,
    "heartbeat_seconds": 1.0,
    "table_service_rollback_delay": 10.0,
    "grace_seconds": 0.0,
    "retained_seconds": 0.0,
    "retained_versions": 50,
}
# Longer than any of these.
_LONG_SECONDS = 60.0


def opened(store: Store) -> RetriedStore:
    return layered(store, config=StoreConfig(uri=store.uri, retry=RetryPolicy(attempts=1)), shape=MEMORY)


def runtime(seed: int = 1) -> Runtime:
    """Of one process, all of whose work happens in one thread."""
    return Runtime(clock=FakeClock(), chance=random.Random(seed), threads=False)


def row(number: int, text: str) -> Row:
    return {"id": number, "host": "ab"[number % 2], "s": text}


def built(clock: FakeClock) -> MemoryStore:
    """A table of four versions that changed it."""
    bare = MemoryStore(clock)
    store, ids = opened(bare), runtime(7)
    first = [row(number, "old") for number in range(10)]
    state = build_table(
        store, "id int64, host string, s string", "id", first, partition_by="host", indexes=None, properties=PROPERTIES, runtime=ids
    )
    state, _ = upsert_table(store, state, [row(number, "new") for number in range(3, 8)], runtime=ids)
    delete_table(store, state, [{"id": number, "host": "ab"[number % 2]} for number in (0, 4)], runtime=ids)
    return bare


def rows_at(store: RetriedStore, state: TableState) -> Rows:
    found = scan_table(store, state)[0].to_pylist()
    assert len({one["id"] for one in found}) == len(found) == state.totals.visible_rows
    return {one["id"]: one for one in found}


@dataclass(frozen=True, kw_only=True)
class Service:
    """Something that runs on a store as `prepare` left it, and again after a death and a clean."""

    name: str
    run: Callable[[RetriedStore, Runtime], object]
    prepare: Callable[[RetriedStore], object] = lambda store: None
    # Whether it may have changed rows, all of them or none.
    writes: bool = False
    # Whether a plan that nobody has begun may wait on after a clean.
    waits: bool = False


def scheduled(cancellable: bool, kind: str = "compaction") -> Callable[[RetriedStore], tuple[TableState, Instant]]:
    def prepare(store: RetriedStore) -> tuple[TableState, Instant]:
        state = read_newest(store)
        if kind == "compaction":
            return schedule_compaction(store, state, cancellable=cancellable, runtime=runtime(8))
        plan = plan_clustering(Snapshot(store=store, state=state), ["s"])
        assert plan is not None
        return schedule(store, state, plan, runtime(8), cancellable=cancellable)

    return prepare


def plan_in(state: TableState) -> InstantId | None:
    return next((found.id for found in state.instants if found.plan is not None and not found.cancelled), None)


def executed(cancellable: bool, kind: str = "compaction") -> Callable[[RetriedStore, Runtime], object]:
    """The plan that waits, or a new one if that is over: whichever it is, it must come to its end."""

    def run(store: RetriedStore, ids: Runtime) -> object:
        state = read_newest(store)
        plan = plan_in(state)
        if plan is None:
            if not _has_work(store, state, kind):
                return None
            state, found = scheduled(cancellable, kind)(store)
            plan = found.id
        return execute(store, state, plan, local_worker(store), ids)

    return run


def _has_work(store: RetriedStore, state: TableState, kind: str) -> bool:
    """Another death came after the commit: then all is done."""
    if kind == "compaction":
        return state.totals.skipped > 0
    return plan_clustering(Snapshot(store=store, state=state), ["s"]) is not None


def scheduling(store: RetriedStore, ids: Runtime) -> object:
    with suppress(ConflictError):
        return schedule_compaction(store, read_newest(store), cancellable=False, runtime=ids)
    # Planned already.
    assert plan_in(read_newest(store)) is not None
    return None


def died_in_flight(cancellable: bool) -> Callable[[RetriedStore], object]:
    """An attempt has written all its files when it dies."""

    def prepare(store: RetriedStore) -> object:
        state, found = scheduled(cancellable)(store)
        with pytest.raises(SimulatedCrash):
            execute_here(_dead_at_commit(store), state, found.id, runtime(9))
        assert read_newest(store).instant(found.id) is not None
        return None

    return prepare


def _dead_at_commit(store: RetriedStore) -> RetriedStore:
    """Dies with its first entry after the claim, and deletes nothing any more."""
    claims = count()

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def put_if_absent(self, path: str, data: bytes) -> None:
            if next(claims):
                raise SimulatedCrash
            store.put_if_absent(path, data)

        def delete(self, paths: object) -> None:
            raise SimulatedCrash

    return Dying()  # type: ignore[return-value]


def rolling_back(store: RetriedStore, ids: Runtime) -> object:
    state = read_newest(store)
    dead = next((found.id for found in state.instants if found.target is None and found.claim is not None), None)
    return None if dead is None else roll_back(store, state, dead, ids, reason="dead")


def many_runs(store: RetriedStore) -> None:
    state = read_newest(store)
    for number in range(7):
        state, _ = upsert_table(store, state, [row(5, f"later {number}")], runtime=runtime(20 + number))
    assert plan_merges(state)


def merging(store: RetriedStore, ids: Runtime) -> object:
    return merge(store, read_newest(store), ids)


def indexing(store: RetriedStore, ids: Runtime) -> object:
    state = read_newest(store)
    index = define_index(PointIndex("s"), state.definition.schema, state.definition.properties)
    return build_index(store, state, index, build_here(store, ids), ids)


def compacted(store: RetriedStore) -> None:
    """Old versions need files and runs that the newest does not."""
    executed(cancellable=True)(store, runtime(30))
    many_runs(store)
    merging(store, runtime(31))


def cleaning(store: RetriedStore, ids: Runtime) -> object:
    return clean(store, read_newest(store), CleanOptions(retained_versions=1), ids)


def cancelling(store: RetriedStore, ids: Runtime) -> object:
    state = read_newest(store)
    plan = next((found.id for found in state.instants if found.plan is not None), None)
    return None if plan is None else cancel_plan(store, state, plan, ids, force=True)


def upserting(store: RetriedStore, ids: Runtime) -> object:
    return upsert_table(store, read_newest(store), [row(number, "newest") for number in range(6, 12)], runtime=ids)


def deleting(store: RetriedStore, ids: Runtime) -> object:
    return delete_table(store, read_newest(store), [{"id": number, "host": "ab"[number % 2]} for number in range(6, 12)], runtime=ids)


SERVICES = [
    Service(name="schedule", run=scheduling, waits=True),
    Service(name="compaction cancellable", run=executed(cancellable=True), prepare=scheduled(cancellable=True)),
    Service(name="compaction immutable", run=executed(cancellable=False), prepare=scheduled(cancellable=False), waits=True),
    Service(
        name="clustering cancellable",
        run=executed(cancellable=True, kind="clustering"),
        prepare=scheduled(cancellable=True, kind="clustering"),
    ),
    Service(
        name="clustering immutable",
        run=executed(cancellable=False, kind="clustering"),
        prepare=scheduled(cancellable=False, kind="clustering"),
        waits=True,
    ),
    Service(name="rollback cancellable", run=rolling_back, prepare=died_in_flight(cancellable=True)),
    Service(name="rollback immutable", run=rolling_back, prepare=died_in_flight(cancellable=False), waits=True),
    Service(name="merge", run=merging, prepare=many_runs),
    Service(name="index", run=indexing),
    Service(name="clean", run=cleaning, prepare=compacted),
    Service(name="clean with a dead worker", run=cleaning, prepare=died_in_flight(cancellable=True)),
    Service(name="cancel", run=cancelling, prepare=scheduled(cancellable=True), waits=True),
    Service(name="cancel by force", run=cancelling, prepare=scheduled(cancellable=False), waits=True),
    Service(name="upsert", run=upserting, writes=True),
    Service(name="delete", run=deleting, writes=True),
]


@dataclass(kw_only=True)
class Stage:
    """A store that a service runs on, again and again from the same beginning."""

    service: Service
    clock: FakeClock
    bare: MemoryStore
    before: Rows
    after: Rows
    # Of every version at the beginning.
    versions: dict[int, Rows]

    def deaths(self) -> Iterator[tuple[CrashPoint, bool]]:
        """Every death, and whether it left a store that was not seen before."""
        seen: set[int] = set()
        for point in crash_everywhere(self.fresh, lambda dying: self.service.run(opened(dying), runtime())):
            assert isinstance(point.store, CountedStore)
            yield point, point.store.writes not in seen
            seen.add(point.store.writes)

    def fresh(self) -> "CountedStore":
        clock = FakeClock(self.clock.now_ms())
        # What died before the service began is dead by now.
        clock.advance(_LONG_SECONDS / 10)
        return CountedStore(self.bare.copy(clock))

    def check(self, store: RetriedStore, *, over: bool) -> Rows:
        """All readable versions hold the rows that they should."""
        state = read_newest(store)
        found = rows_at(store, state)
        assert found in ((self.after,) if over else (self.before, self.after))
        for at in _different(store, state):
            rows = rows_at(store, at)
            assert rows == self.versions[at.version] if at.version in self.versions else rows in (self.before, self.after)
        assert not verify_table(Snapshot(store=store, state=state)).problems
        return found


def stage(service: Service) -> Stage:
    clock = FakeClock()
    bare = built(clock)
    service.prepare(opened(bare))
    newest = read_newest(opened(bare))
    versions = {number: rows_at(opened(bare), read_state_at(opened(bare), number, newest)) for number in range(newest.version + 1)}
    before = versions[newest.version]
    ready = Stage(service=service, clock=clock, bare=bare, before=before, after=before, versions=versions)
    done = opened(ready.fresh())
    service.run(done, runtime())
    ready.after = rows_at(done, read_newest(done))
    assert (ready.after != before) == service.writes
    return ready


def _different(store: RetriedStore, state: TableState) -> Iterator[TableState]:
    """The older versions that are readable, but for those that have what the one after them has: most are steps of some work."""
    after = state
    for version in range(state.version - 1, state.oldest - 1, -1):
        at = read_state_at(store, version, state)
        if at.runs != after.runs or version == state.oldest:
            yield at
        after = at


class CountedStore:
    """Counts what reaches the store and changes it: runs of the same work that got as far left the same behind."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        if name in ("put", "put_if_absent", "delete"):
            self.writes += 1
        return getattr(self.inner, name)


def later(bare: MemoryStore, times: int) -> MemoryStore:
    """The same store when every heartbeat of before has expired."""
    clock = FakeClock()
    clock.advance(times * _LONG_SECONDS)
    return bare.copy(clock)


def cleaned(store: RetriedStore, seed: int) -> TableState:
    return clean(store, read_newest(store), CleanOptions(), runtime(seed))[0]


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_dying_at_any_call_loses_nothing_and_leaves_nothing(service: Service) -> None:
    ready = stage(service)
    deaths = different = 0
    for point, is_new in ready.deaths():
        deaths += 1
        if not is_new:
            continue
        different += 1
        where = f"{service.name}: {point.fault.name} call {point.number}"
        assert isinstance(point.store, CountedStore)
        ready.check(opened(point.store.inner), over=False)
        bare = later(point.store.inner, 1)
        _check_tidy(opened(bare), cleaned(opened(bare), 40), service, where)
        service.run(opened(bare), runtime(50))
        bare = later(bare, 2)
        _check_tidy(opened(bare), cleaned(opened(bare), 60), service, f"{where}, then to its end")
        ready.check(opened(bare), over=True)
    print(f"{service.name}: {deaths} deaths, {different} different stores")
    assert different > 2


def _check_tidy(store: RetriedStore, state: TableState, service: Service, where: str) -> None:
    """Nothing is inflight, and every object belongs to a readable version or to a plan that waits."""
    left = [found for found in state.instants if not (service.waits and found.plan is not None and found.claim is None)]
    assert not left, f"{where}: {left}"
    assert not orphans(store, state), f"{where}: {orphans(store, state)}"


def test_work_that_has_just_ended_is_not_taken_for_dead() -> None:
    clock = FakeClock()
    store = opened(built(clock))
    state, found = scheduled(cancellable=True)(store)

    class Ending:
        """The plan is executed to its end between a look at the log and one at the heartbeats."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[Any]:
            heartbeats = [*store.list(prefix, start_after)]
            execute_here(store, state, found.id, runtime(70))
            return iter(heartbeats)

    clock.advance(_LONG_SECONDS)
    assert [one.id for one in dead_instants(store, state, runtime(71))] == [found.id]
    assert dead_instants(Ending(), state, runtime(71)) == []  # type: ignore[arg-type]
    assert read_newest(store).instant(found.id) is None
