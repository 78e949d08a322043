"""The loop that tends tables: what it does in a round, in which order, what a quiet table costs, and what it does when things go wrong."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.format.log_entry import ROOT
from needlefish.model.instant import InstantId
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.services.execute import Worker
from needlefish.services.here_worker import here_worker
from needlefish.services.rewrite import RewritePlan, plan_clustering
from needlefish.services.schedule import schedule
from needlefish.services.stopping import Stop
from needlefish.services.tend import Event, TendedTable, TendOptions, tend
from needlefish.store import RetriedStore, Store, layered
from needlefish.store.shapes import MEMORY
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import Written
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Call, Fault, FaultyStore
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.services import completions, orphans
from needlefish.testing.tables import append_rows, build_table, scan_table
from needlefish.timeline import read_newest
from needlefish.timeline.work import claimed

_seeds = count(1)
_WAITING = {"compact": False, "clean": False}


@dataclass
class Heard:
    """An audience that remembers."""

    events: list[Event] = field(default_factory=list)

    def tell(self, event: Event) -> None:
        self.events.append(event)

    @contextmanager
    def doing(self, table: str, what: str) -> Iterator[None]:
        yield

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(event.action, event.outcome) for event in self.events]


@dataclass(kw_only=True)
class Scene:
    """A table in memory with five small files and 20 hidden rows, and a clock that is everybody's."""

    clock: FakeClock
    bare: MemoryStore
    heard: Heard = field(default_factory=Heard)

    @property
    def runtime(self) -> Runtime:
        return Runtime(clock=self.clock, chance=random.Random(next(_seeds)), threads=False)

    def store(self, bare: Store | None = None) -> RetriedStore:
        config = StoreConfig(uri=self.bare.uri, retry=RetryPolicy(attempts=1))
        return layered(bare or self.bare, config=config, runtime=self.runtime, shape=MEMORY)

    def newest(self) -> TableState:
        return read_newest(self.store())

    def tended(self, stop: Stop | None = None, worker: object = here_worker, bare: Store | None = None, **options: object) -> TendedTable:
        stop = stop or Stop(runtime=self.runtime)
        chosen = TendOptions(**options)  # type: ignore[arg-type]
        return TendedTable(self.store(bare), chosen, worker, self.heard, stop, self.runtime)  # type: ignore[arg-type]

    def upsert(self, step: int) -> None:
        upsert_table(self.store(), self.newest(), [row(number, -step) for number in range(0, 100, step)], runtime=self.runtime)

    def check(self, rows: int = 100) -> None:
        """Every row once, all of it sound, nothing inflight and nothing left lying about."""
        state = self.newest()
        found = scan_table(self.store(), state)[0].to_pylist()
        assert len(found) == len({one["id"] for one in found}) == state.totals.visible_rows == rows
        assert verify_table(Snapshot(store=self.store(), state=state)).problems == ()
        assert [one.id for one in state.instants] == []
        # A plan that was executed stays until a clean.
        assert {path for path in orphans(self.store(), state) if not path.startswith(f"{ROOT}plans/")} == set()


def row(number: int, n: int) -> dict[str, object]:
    return {"id": f"k{number:03}", "n": n}


@pytest.fixture
def scene() -> Scene:
    clock = FakeClock()
    made = Scene(clock=clock, bare=MemoryStore(clock, uri=f"memory://tend-{next(_seeds)}"))
    state = build_table(made.store(), "id string, n int64", "id", properties={"granule_rows": 5, "chunkset_rows": 40}, runtime=made.runtime)
    for first in range(0, 100, 20):
        state = append_rows(made.store(), state, [row(number, number) for number in range(first, first + 20)], made.runtime)
    made.upsert(5)
    return made


def test_a_round_does_all_that_is_worth_it(scene: Scene) -> None:
    scene.tended().tend()
    assert scene.heard.outcomes == [("compaction", "done"), ("merge", "done")]
    facts = scene.heard.events[0].facts
    assert (facts["files_before"], facts["files"], facts["folded"]) == (5, 3, 20)
    assert (scene.newest().totals.files, scene.newest().totals.skipped) == (4, 0)
    scene.check()


def test_clustering_by_chosen_columns(scene: Scene) -> None:
    table = scene.tended(compact=False, cluster_by=("n",))
    table.tend()
    table.tend()
    assert scene.heard.outcomes[0] == ("clustering", "done")
    assert [action for action, _ in scene.heard.outcomes].count("clustering") == 1
    scene.check()


def test_a_quiet_table_costs_two_gets_a_round(scene: Scene) -> None:
    table = scene.tended()
    table.tend()
    table.tend()
    meter = table.store.meter
    for _ in range(5):
        before = meter.snapshot()
        scene.clock.advance(60)
        table.tend()
        spent = meter.snapshot() - before
        # The entry that does not exist yet, and the last one: it tells that no clean has removed what came after it.
        assert (spent.requests, spent.get.requests) == (2, 2)


def test_work_that_others_do_is_no_reason_to_plan_anew(scene: Scene) -> None:
    """A writer that has claimed its work and not ended it: the files are the same, only whether it lives is looked at."""
    table = scene.tended()
    table.tend()
    table.tend()
    state, instant = scheduled(scene, cancellable=True)
    with claimed(scene.store(), state, instant, scene.runtime):
        table.tend()
        before = table.store.meter.snapshot()
        table.tend()
        spent = table.store.meter.snapshot() - before
    # A look at the log; heartbeats are listed, and an object is put to ask for the store's time.
    assert (spent.get.requests, spent.list.requests, spent.put.requests, spent.get_range.requests) == (2, 1, 1, 0)


def test_cleans_come_as_often_as_they_were_asked_for(scene: Scene) -> None:
    table = scene.tended(clean_every_seconds=600)
    listed = []
    for _ in range(21):
        before = table.store.meter.snapshot()
        table.tend()
        listed.append((table.store.meter.snapshot() - before).list.requests > 0)
        scene.clock.advance(60)
    assert [number for number, was in enumerate(listed) if was] == [0, 10, 20]


def test_a_clean_removes_what_retention_lets_go(scene: Scene) -> None:
    table = scene.tended(clean_every_seconds=600)
    table.tend()
    scene.clock.advance(30 * 86_400)
    for step in range(2, 14):
        scene.upsert(step)
    scene.clock.advance(30 * 86_400)
    table.tend()
    assert ("clean", "done") in scene.heard.outcomes
    cleaned = next(event for event in scene.heard.events if event.action == "clean")
    assert cleaned.facts["objects"] > 5  # type: ignore[operator]
    assert scene.newest().oldest > 0
    scene.check()


def scheduled(scene: Scene, *, cancellable: bool, files: tuple[str, ...] | None = None) -> tuple[TableState, InstantId]:
    state = scene.newest()
    plan = plan_clustering(Snapshot(store=scene.store(), state=state), ["n"], files=files)
    assert plan is not None
    state, instant = schedule(scene.store(), state, plan, scene.runtime, cancellable=cancellable)
    return state, instant.id


def test_waiting_plans_are_executed_the_immutable_ones_first(scene: Scene) -> None:
    files = plan_files(scene)
    chosen = {
        cancellable: scheduled(scene, cancellable=cancellable, files=part)[1]
        for cancellable, part in ((True, files[:2]), (False, files[2:4]))
    }
    scene.tended(**_WAITING).tend()
    done = [event.facts["plan"] for event in scene.heard.events if event.action == "clustering"]
    assert done == [chosen[False], chosen[True]]
    scene.check()


def plan_files(scene: Scene) -> tuple[str, ...]:
    plan = plan_clustering(Snapshot(store=scene.store(), state=scene.newest()), ["n"])
    assert plan is not None
    return plan.inputs


def test_a_dead_attempt_at_an_immutable_plan_is_undone_and_the_plan_executed(scene: Scene) -> None:
    state, plan = scheduled(scene, cancellable=False)
    dying = claimed(scene.store(), state, plan, scene.runtime)
    dying.__enter__()
    scene.tended(**_WAITING).tend()
    assert scene.heard.outcomes == [], "alive as far as anybody can tell"
    scene.clock.advance(121)
    scene.tended(**_WAITING).tend()
    assert scene.heard.outcomes[:2] == [("rollback", "done"), ("clustering", "done")]
    assert scene.heard.events[0].facts["rolled_back"] == (plan,)
    assert len(completions(scene.store(), scene.newest(), plan)) == 1
    scene.check()


def preempted(scene: Scene, times: int) -> object:
    """A worker that a writer overtakes so many times."""
    left = iter(range(times))

    def worker_for(store: RetriedStore) -> Worker:
        def write(state: TableState, plan: RewritePlan, runtime: Runtime) -> Written:
            written = here_worker(store).write(state, plan, runtime)
            if next(left, None) is not None:
                scene.upsert(3)
            return written

        return Worker(write=write)

    return worker_for


def test_a_writer_that_was_first_ends_a_compaction_and_the_next_round_plans_anew(scene: Scene) -> None:
    table = scene.tended(worker=preempted(scene, 1))
    table.tend()
    assert scene.heard.outcomes[0] == ("compaction", "first")
    assert table.failure is None
    table.tend()
    assert scene.heard.outcomes[1:].count(("compaction", "done")) == 1
    scene.check()


def test_where_writers_are_quick_compactions_become_small_and_grow_again(scene: Scene) -> None:
    state = scene.newest()
    for first in range(100, 500, 10):
        state = append_rows(scene.store(), state, [row(number, number) for number in range(first, first + 10)], scene.runtime)
    table = scene.tended(worker=preempted(scene, 1), clean=False)
    table.tend()
    assert scene.heard.outcomes[0] == ("compaction", "first")
    files = scene.newest().totals.files
    table.tend()
    taken = [event.facts["files_before"] for event in scene.heard.events if event.outcome == "done" and event.action == "compaction"]
    assert len(taken) > 1, "a round goes on while there is more"
    assert taken[0] < files / 2
    assert taken[1] > taken[0]
    scene.check(500)


def test_another_worker_executes_what_was_planned_here(scene: Scene) -> None:
    """Between the look and the claim."""
    _, plan = scheduled(scene, cancellable=True)

    def worker_for(store: RetriedStore) -> Worker:
        scene.tended(**_WAITING).tend()
        return here_worker(store)

    scene.tended(worker=worker_for, **_WAITING).tend()
    clusterings = [event for event in scene.heard.events if event.action == "clustering"]
    assert [event.facts["repeated"] for event in clusterings] == [False, True]
    assert len(completions(scene.store(), scene.newest(), plan)) == 1
    scene.check()


def test_a_store_that_is_away_is_left_alone_ever_longer(scene: Scene) -> None:
    away = True

    def faults(call: Call) -> Fault | None:
        return Fault.UNAVAILABLE if away else None

    faulty = FaultyStore(scene.bare, faults)
    table = scene.tended(bare=faulty)
    tried = []
    for _ in range(60):
        before = len(scene.heard.events)
        table.tend()
        tried.append(len(scene.heard.events) > before)
        scene.clock.advance(60)
    assert {event.outcome for event in scene.heard.events} == {"away"}
    waits = [event.wait_seconds for event in scene.heard.events]
    assert all(wait is not None and wait <= 900 for wait in waits)
    assert 4 <= sum(tried) < 12
    away = False
    scene.clock.advance(900)
    table.tend()
    assert ("compaction", "done") in scene.heard.outcomes
    scene.check()


def test_what_is_wrong_with_one_table_keeps_nothing_from_the_others(scene: Scene) -> None:
    def broken(store: RetriedStore) -> Worker:
        def write(state: TableState, plan: RewritePlan, runtime: Runtime) -> Written:
            raise RuntimeError("a bug")

        return Worker(write=write)

    stop = Stop(runtime=scene.runtime)
    bad, good = scene.tended(stop, worker=broken), scene.tended(stop)
    tend([bad, good], stop, 60, once=True)
    assert scene.heard.outcomes[:2] == [("table", "failed"), ("compaction", "done")]
    assert scene.heard.events[0].reason == "RuntimeError: a bug"
    assert isinstance(bad.failure, RuntimeError)
    assert good.failure is None
    scene.check()


def test_asked_to_stop_it_finishes_the_piece_and_begins_no_other(scene: Scene) -> None:
    stop = Stop(runtime=scene.runtime)

    def asking(store: RetriedStore) -> Worker:
        stop.ask()
        return here_worker(store)

    tend([scene.tended(stop, worker=asking), scene.tended(stop)], stop, 60)
    assert scene.heard.outcomes == [("compaction", "done")]
    scene.check()


@dataclass
class Interrupting:
    """Has the work interrupted when it has made so many store calls, and counts nothing before it begins to write."""

    after: int
    stop: Stop
    worker: Worker | None = None
    calls: int = 0

    def look(self, call: Call) -> None:
        if self.worker is not None:
            self.calls += 1
            if self.calls == self.after:
                self.stop.ask()
                self.worker.interrupt()

    def worker_for(self, store: RetriedStore) -> Worker:
        worker = here_worker(store)

        def write(state: TableState, plan: RewritePlan, runtime: Runtime) -> Written:
            self.worker = worker
            try:
                return worker.write(state, plan, runtime)
            finally:
                self.worker = None

        return Worker(write=write)


def test_work_that_is_interrupted_at_any_store_call_is_undone(scene: Scene) -> None:
    for after in count(1, 6):
        _, plan = scheduled(scene, cancellable=True)
        asked = Interrupting(after, Stop(0, runtime=scene.runtime))
        scene.tended(asked.stop, asked.worker_for, FaultyStore(scene.bare, asked.look), **_WAITING).tend()
        scene.check()
        if ("clustering", "done") in scene.heard.outcomes:
            # It was over before anybody could interrupt it.
            break
        assert scene.heard.outcomes[-1] == ("clustering", "undone")
        assert completions(scene.store(), scene.newest(), plan) == []
    assert after > 10


def test_waiting_ends_when_somebody_asks() -> None:
    clock = FakeClock()
    stop = Stop(runtime=Runtime(clock=clock))
    stop.wait(10)
    assert clock.monotonic() == pytest.approx(10)
    assert max(clock.naps) <= 0.2
    stop.ask()
    stop.wait(10)
    assert clock.monotonic() == pytest.approx(10)
    assert not stop.is_overdue
    clock.advance(30)
    assert stop.is_overdue


def test_a_second_request_to_stop_ends_all_patience() -> None:
    stop = Stop(runtime=Runtime(clock=FakeClock()))
    stop.ask()
    assert (stop.asked, stop.is_overdue) == (True, False)
    stop.ask()
    assert stop.is_overdue
