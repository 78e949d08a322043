"""Two workers on one table, in every order of their store calls with a few switches, and in every order of their log appends.

Whatever the order: no row is lost, none is there twice, a plan is completed at most once, and nothing that a readable version
needs is deleted. The number of schedules that were run is printed.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, FencedError
from needlefish.model.instant import InstantId
from needlefish.model.log import TableState
from needlefish.services.dead import dead_instants
from needlefish.services.execute import Worker as Executor
from needlefish.services.execute import execute
from needlefish.services.rewrite import written_here
from needlefish.services.rollback import roll_back
from needlefish.store import RetriedStore, Store, layered
from needlefish.store.shapes import MEMORY
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.explorer import Explored, explore
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.schedule import Outcome, World
from needlefish.testing.scheduler import Worker
from needlefish.testing.services import completions, execute_here, needed_objects, schedule_compaction
from needlefish.testing.switch_points import every_call, log_appends
from needlefish.testing.tables import build_table, scan_table
from needlefish.timeline import read_newest

Row = dict[str, Any]
OLD = {number: {"id": number, "s": "new" if number < 3 else "old"} for number in range(8)}
# One of a row that the plan reads, one that nobody has.
CHANGED = [{"id": 2, "s": "changed"}, {"id": 20, "s": "changed"}]


@dataclass(frozen=True, kw_only=True)
class Planned(World):
    """A table with a plan that waits, or whose worker died."""

    plan: InstantId
    # The version that all begin with.
    begun: int


def opened(store: Store) -> RetriedStore:
    return layered(store, config=StoreConfig(uri=store.uri), shape=MEMORY)


@cache
def built(cancellable: bool, dead: bool, delay: float) -> tuple[MemoryStore, str, int]:
    clock = FakeClock()
    bare = MemoryStore(clock)
    store = opened(bare)
    rows = [{"id": number, "s": "old"} for number in range(8)]
    properties = {"granule_rows": 4, "table_service_rollback_delay": delay, "checkpoint_interval": 1000}
    state = build_table(store, "id int64, s string", "id", rows, indexes=None, properties=properties)
    state, _ = upsert_table(store, state, [{"id": number, "s": "new"} for number in range(3)])
    state, found = schedule_compaction(store, state, cancellable=cancellable)
    if dead:
        _die(store, state, found.id)
    return bare, found.id, read_newest(store).version


class Died(BaseException):
    """The worker is gone without a word."""


def _die(store: RetriedStore, state: TableState, plan: InstantId) -> None:
    """Leaves the plan inflight, with a file and without a heartbeat."""

    def write(at: TableState, what: Any, runtime: Any) -> Any:
        written_here(store, at, what, runtime)
        raise Died

    with pytest.raises(Died):
        execute(store, state, plan, Executor(write=write))


def world(*, cancellable: bool = True, dead: bool = False, delay: float = 3600) -> Callable[[], Planned]:
    def make() -> Planned:
        bare, plan, begun = built(cancellable, dead, delay)
        clock = FakeClock()
        return Planned(store=bare.copy(clock), clock=clock, plan=InstantId(plan), begun=begun)

    return make


# What each worker does. Their clocks differ by hours, which nothing may depend on.
def executing(scene: Planned, worker: Worker) -> object:
    store = worker.store()
    return execute_here(store, read_newest(store), scene.plan, worker.runtime(ahead_seconds=7_200 * worker.number))[1]


def upserting(scene: Planned, worker: Worker) -> object:
    store = worker.store()
    return upsert_table(store, read_newest(store), CHANGED, runtime=worker.runtime(ahead_seconds=-7_200))[1]


def rolling_back(scene: Planned, worker: Worker) -> object:
    """What a clean begins with."""
    store, runtime = worker.store(), worker.runtime(ahead_seconds=7_200 * worker.number)
    state = read_newest(store)
    dead = dead_instants(store, state, runtime)
    for instant in dead:
        state = roll_back(store, state, instant.id, runtime, reason="dead")
    return [instant.id for instant in dead]


def rows_of(store: RetriedStore, state: TableState) -> dict[int, Row]:
    rows = scan_table(store, state)[0].to_pylist()
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == len(rows) == state.totals.visible_rows
    return by_id


def all_is_right(scene: Planned, outcomes: list[Outcome], *, upserts: int = 0) -> TableState:
    """The invariants. Workers may fail only because another was first."""
    store = opened(scene.store)
    state = read_newest(store)
    for outcome in outcomes:
        if outcome.error is not None and not isinstance(outcome.error, ConflictError | FencedError):
            outcome.result()
    changed = {row["id"]: row for row in CHANGED} if upserts else {}
    assert rows_of(store, state) == OLD | changed
    assert len(completions(store, state, scene.plan)) <= 1
    there = {found.path for found in scene.store.list()}
    assert needed_objects(store, state, {scene.begun, state.version}) <= there
    return state


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Explored], None]:
    """The number of schedules is shown even if all went well."""

    def show(what: str, explored: Explored) -> None:
        with capsys.disabled():
            print(f"\n{what}: {explored}")

    return show


# Schedules that differ only in the order of calls that commute are run once, unless all are asked for.
ALL = bool(os.environ.get("NEEDLEFISH_ALL_SCHEDULES"))
ORDERS = [
    pytest.param(every_call, 2, id="up to three changes of the floor"),
    pytest.param(log_appends, None, id="every order of log appends"),
]


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
@pytest.mark.parametrize("cancellable", [True, False], ids=["cancellable", "immutable"])
def test_execute_and_execute(cancellable: bool, relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    def check(scene: Planned, outcomes: list[Outcome]) -> None:
        state = all_is_right(scene, outcomes)
        done = [outcome.value for outcome in outcomes if outcome.error is None]
        assert len(completions(opened(scene.store), state, scene.plan)) == 1
        assert sum(not result.repeated for result in done) == 1

    explored = explore(
        world(cancellable=cancellable), [executing, executing], check, switches=switches, relevant=relevant, skip_equal=not ALL
    )
    say(f"execute beside execute, {'cancellable' if cancellable else 'immutable'}", explored)


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
def test_execute_and_execute_after_a_death(relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    def check(scene: Planned, outcomes: list[Outcome]) -> None:
        state = all_is_right(scene, outcomes)
        assert len(completions(opened(scene.store), state, scene.plan)) == 1

    explored = explore(
        world(cancellable=False, dead=True), [executing, executing], check, switches=switches, relevant=relevant, skip_equal=not ALL
    )
    say("execute beside execute, after a worker died", explored)


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
@pytest.mark.parametrize("cancellable", [True, False], ids=["cancellable", "immutable"])
def test_execute_and_upsert(cancellable: bool, relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    def check(scene: Planned, outcomes: list[Outcome]) -> None:
        executed, upserted = outcomes
        state = all_is_right(scene, outcomes, upserts=int(upserted.error is None))
        completed = len(completions(opened(scene.store), state, scene.plan))
        if cancellable:
            # A writer never loses to a plan that yields.
            upserted.result()
            assert completed == int(executed.error is None)
        else:
            # One of the two is refused, or the writer came when all was over.
            assert completed == 1

    explored = explore(
        world(cancellable=cancellable), [executing, upserting], check, switches=switches, relevant=relevant, skip_equal=not ALL
    )
    say(f"execute beside upsert, {'cancellable' if cancellable else 'immutable'}", explored)


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
@pytest.mark.parametrize("delay", [0, 3600], ids=["at once", "later"])
def test_execute_and_lazy_clean(delay: float, relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    def check(scene: Planned, outcomes: list[Outcome]) -> None:
        executed, _ = outcomes
        state = all_is_right(scene, outcomes)
        completed = len(completions(opened(scene.store), state, scene.plan))
        assert completed == int(executed.error is None)
        assert completed or not delay

    explored = explore(world(delay=delay), [executing, rolling_back], check, switches=switches, relevant=relevant, skip_equal=not ALL)
    say(f"execute beside lazy clean, {'delay 0' if not delay else 'younger than the delay'}", explored)


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
@pytest.mark.parametrize("cancellable", [True, False], ids=["cancellable", "immutable"])
def test_rollback_and_rollback(cancellable: bool, relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    def check(scene: Planned, outcomes: list[Outcome]) -> None:
        state = all_is_right(scene, outcomes)
        found = state.instant(scene.plan)
        assert (found is None) == cancellable
        assert found is None or (found.claim, found.undone_by) == (None, None)

    explored = explore(
        world(cancellable=cancellable, dead=True),
        [rolling_back, rolling_back],
        check,
        switches=switches,
        relevant=relevant,
        skip_equal=not ALL,
    )
    say(f"rollback beside rollback, {'cancellable' if cancellable else 'immutable'}", explored)


def test_what_is_left_verifies() -> None:
    """Once, since it reads everything: the world that all of the above begin with."""
    scene = world()()
    store = opened(scene.store)
    assert not verify_table(Snapshot(store=store, state=read_newest(store))).problems
