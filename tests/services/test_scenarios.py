"""The scenario table of table services: who may execute, take over, roll back and clean, in every case that has a name.

Dead is who stopped beating in the store's time; a worker that is asked to die does so at a store call and leaves everything as it is.
"""

import random
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import ConflictError, FencedError, NeedlefishError
from needlefish.model.instant import InstantId
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.services.dead import dead_instants
from needlefish.services.execute import ServiceResult, Worker, execute
from needlefish.services.rewrite import written_here
from needlefish.services.rollback import roll_back
from needlefish.services.schedule import cancel
from needlefish.store import RetriedStore, layered
from needlefish.store.shapes import MEMORY
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.services import completions, entries_of, execute_here, local_worker, orphans, schedule_compaction
from needlefish.testing.tables import build_table, scan_table
from needlefish.timeline import read_newest

Row = dict[str, Any]
_seeds = count(1)


@dataclass(kw_only=True)
class Scene:
    """A small table with hidden rows and small files, and a clock that is the store's."""

    clock: FakeClock
    bare: MemoryStore
    cancellable: bool
    plan: InstantId

    def store(self) -> RetriedStore:
        return layered(self.bare, config=StoreConfig(uri=self.bare.uri, retry=RetryPolicy(attempts=1)), shape=MEMORY)

    def runtime(self, wrong_by_seconds: float = 0) -> Runtime:
        """Of one worker, whose own clock may be anything."""
        start = self.clock.now_ms() + round(wrong_by_seconds * 1000)
        return Runtime(clock=FakeClock(start), chance=random.Random(next(_seeds)), threads=False)

    def newest(self) -> TableState:
        return read_newest(self.store())

    def execute(self, runtime: Runtime | None = None) -> ServiceResult:
        return execute_here(self.store(), self.newest(), self.plan, runtime or self.runtime())[1]

    def rows(self) -> dict[int, Row]:
        state = self.newest()
        found = scan_table(self.store(), state)[0].to_pylist()
        assert len({row["id"] for row in found}) == len(found) == state.totals.visible_rows
        assert not verify_table(Snapshot(store=self.store(), state=state)).problems
        return {row["id"]: row for row in found}

    def roll_back_the_dead(self) -> list[str]:
        """What a lazy clean begins with."""
        store, state, runtime = self.store(), self.newest(), self.runtime(-7_200)
        dead = dead_instants(store, state, runtime)
        for instant in dead:
            state = roll_back(store, state, instant.id, runtime, reason="dead")
        return [instant.id for instant in dead]


def scene(*, cancellable: bool, **properties: object) -> Scene:
    clock = FakeClock()
    bare = MemoryStore(clock)
    store = layered(bare, config=StoreConfig(uri=bare.uri), shape=MEMORY)
    rows = [{"id": number, "s": "old"} for number in range(12)]
    state = build_table(store, "id int64, s string", "id", rows, indexes=None, properties={"granule_rows": 4, **properties})
    state, _ = upsert_table(store, state, [{"id": number, "s": "new"} for number in range(3, 8)])
    _, found = schedule_compaction(store, state, cancellable=cancellable)
    return Scene(clock=clock, bare=bare, cancellable=cancellable, plan=found.id)


ROWS = {number: {"id": number, "s": "new" if 3 <= number < 8 else "old"} for number in range(12)}


class Died(BaseException):
    """The worker is gone without a word; no handler sees it."""


def dying_worker(store: RetriedStore, scene: Scene) -> Worker:
    """Writes its files and dies."""

    def write(state: TableState, plan: Any, runtime: Runtime) -> Any:
        written_here(store, state, plan, runtime)
        raise Died

    return Worker(write=write)


def die_in_flight(scene: Scene) -> None:
    """Leaves the plan inflight, with files and a heartbeat that nobody renews."""
    store, runtime = scene.store(), scene.runtime()
    # A killed process does not stop its heartbeat either.
    kept: dict[str, bytes] = {}
    with pytest.raises(Died):
        execute(_without_goodbye(store, kept), scene.newest(), scene.plan, dying_worker(store, scene), runtime)
    found = scene.newest().instant(scene.plan)
    assert found is not None
    assert found.claim is not None


def _without_goodbye(store: RetriedStore, kept: dict[str, bytes]) -> RetriedStore:
    class Silent:
        """Deletes nothing: what a process does at its end, a killed one does not."""

        def __getattr__(self, name: str) -> Any:
            return (lambda paths: None) if name == "delete" else getattr(store, name)

    return Silent()  # type: ignore[return-value]


def expire(scene: Scene) -> None:
    """Heartbeats of all who do not beat any more."""
    scene.clock.advance(200)


def interrupted(scene: Scene, during: Callable[[], object]) -> Callable[[], object]:
    """An execution in the middle of which something else happens, before it commits."""

    def run() -> object:
        store = scene.store()

        def write(state: TableState, plan: Any, runtime: Runtime) -> Any:
            written = written_here(store, state, plan, runtime)
            during()
            return written

        return execute(store, scene.newest(), scene.plan, Worker(write=write), scene.runtime())[1]

    return run


class TestImmutable:
    """Plans that stand until they are completed."""

    def test_a_several_workers_execute_a_new_plan(self) -> None:
        stage = scene(cancellable=False)
        results = [stage.execute(), stage.execute(stage.runtime(-86_400)), stage.execute(stage.runtime(86_400))]
        assert [result.repeated for result in results] == [False, True, True]
        assert len({result.version for result in results}) == 1
        assert completions(stage.store(), stage.newest(), stage.plan) == [results[0].version]
        assert stage.rows() == ROWS

    def test_b_another_starts_while_the_first_is_alive(self) -> None:
        stage = scene(cancellable=False)
        failures: list[str] = []

        def other() -> None:
            with pytest.raises(ConflictError) as caught:
                stage.execute()
            failures.append(str(caught.value))

        result = interrupted(stage, other)()
        assert isinstance(result, ServiceResult)
        assert not result.repeated
        assert len(failures) == 1
        assert completions(stage.store(), stage.newest(), stage.plan) == [result.version]
        assert stage.rows() == ROWS

    def test_b_another_takes_over_and_the_first_wakes_up_at_the_last_moment(self) -> None:
        stage = scene(cancellable=False)
        done: list[ServiceResult] = []

        def other() -> None:
            expire(stage)
            done.append(stage.execute())

        with pytest.raises(FencedError):
            interrupted(stage, other)()
        assert completions(stage.store(), stage.newest(), stage.plan) == [done[0].version]
        assert stage.rows() == ROWS
        # What the first had written is gone, and so is its claim to anything.
        assert not stage.newest().instants

    def test_b_the_rollback_comes_before_the_second_claim(self) -> None:
        stage = scene(cancellable=False)
        die_in_flight(stage)
        expire(stage)
        result = stage.execute()
        assert not result.repeated
        steps = [entry.instant for entry in entries_of(stage.store(), stage.newest()) if entry.instant is not None]
        of_plan = [(step.step, step.id == stage.plan) for step in steps if stage.plan in (step.id, step.target)]
        # Requested, claimed, a rollback that targets it, claimed again, completed.
        assert of_plan == [("requested", True), ("inflight", True), ("inflight", False), ("inflight", True), ("completed", True)]
        assert stage.rows() == ROWS

    def test_c_two_find_a_dead_one(self) -> None:
        stage = scene(cancellable=False)
        die_in_flight(stage)
        before = {found.path for found in stage.bare.list("data/")}
        expire(stage)
        first = stage.execute()
        second = stage.execute()
        assert (first.repeated, second.repeated, first.version) == (False, True, second.version)
        left = orphans(stage.store(), stage.newest())
        assert not {path for path in left if path.startswith("data/")} & before
        assert stage.rows() == ROWS

    def test_a_failed_attempt_is_undone_and_the_plan_stands(self) -> None:
        stage = scene(cancellable=False)

        def fail() -> None:
            raise RuntimeError("the job failed")

        with pytest.raises(RuntimeError):
            interrupted(stage, fail)()
        state = stage.newest()
        found = state.instant(stage.plan)
        assert found is not None
        assert (found.claim, found.epoch) == (None, 1)
        assert not orphans(stage.store(), state)
        assert not stage.execute().repeated
        assert stage.rows() == ROWS

    @pytest.mark.parametrize("change", ["upsert", "delete", "present"])
    def test_writers_of_its_inputs_fail_before_they_write(self, change: str) -> None:
        stage = scene(cancellable=False)
        store = stage.store()
        before = {found.path for found in stage.bare.list("data/")}
        with pytest.raises(ConflictError, match=stage.plan):
            _change(stage, change, 5)
        assert {found.path for found in stage.bare.list("data/")} == before
        assert stage.rows() == ROWS
        # Others go their way: new keys touch no input.
        upsert_table(store, stage.newest(), [{"id": 50, "s": "more"}])
        stage.execute()
        assert stage.rows() == ROWS | {50: {"id": 50, "s": "more"}}
        _change(stage, change, 5)

    def test_a_writer_that_began_before_the_plan_is_refused_at_its_commit(self) -> None:
        clock = FakeClock()
        bare = MemoryStore(clock)
        store = layered(bare, config=StoreConfig(uri=bare.uri), shape=MEMORY)
        state = build_table(store, "id int64, s string", "id", [{"id": n, "s": "old"} for n in range(6)], indexes=None)
        state, _ = upsert_table(store, state, [{"id": 1, "s": "new"}])
        _, plan = schedule_compaction(store, state, cancellable=False)
        # The writer's base is older than the plan.
        with pytest.raises(ConflictError, match=plan.id):
            upsert_table(store, state, [{"id": 2, "s": "late"}])

    def test_it_is_not_cancelled_unless_by_force(self) -> None:
        stage = scene(cancellable=False)
        with pytest.raises(ConflictError, match="immutable"):
            cancel(stage.store(), stage.newest(), stage.plan, stage.runtime())
        cancel(stage.store(), stage.newest(), stage.plan, stage.runtime(), force=True)
        assert stage.roll_back_the_dead() == [stage.plan]
        _change(stage, "upsert", 5)

    def test_a_plan_that_waits_is_never_dead(self) -> None:
        stage = scene(cancellable=False, table_service_rollback_delay=0)
        stage.clock.advance(10_000_000)
        assert stage.roll_back_the_dead() == []
        assert not stage.execute().repeated


def _change(stage: Scene, kind: str, key: int) -> None:
    store = stage.store()
    if kind == "upsert":
        upsert_table(store, stage.newest(), [{"id": key, "s": "changed"}])
    elif kind == "present":
        upsert_table(store, stage.newest(), [{"id": key}], columns="present")
    else:
        delete_table(store, stage.newest(), [{"id": key}])


class TestCancellable:
    """Plans that yield."""

    def test_a_several_workers_execute_a_new_plan(self) -> None:
        stage = scene(cancellable=True)
        results = [stage.execute(), stage.execute(), stage.execute()]
        assert [result.repeated for result in results] == [False, True, True]
        assert completions(stage.store(), stage.newest(), stage.plan) == [results[0].version]
        assert stage.rows() == ROWS

    def test_b_another_starts_while_the_first_is_alive(self) -> None:
        stage = scene(cancellable=True)

        def other() -> None:
            with pytest.raises(ConflictError):
                stage.execute()

        result = interrupted(stage, other)()
        assert isinstance(result, ServiceResult)
        assert stage.execute().repeated
        assert stage.rows() == ROWS

    def test_b_another_fails_if_the_first_failed(self) -> None:
        stage = scene(cancellable=True)

        def fail() -> None:
            with pytest.raises(ConflictError):
                stage.execute()
            raise RuntimeError("the job failed")

        with pytest.raises(RuntimeError):
            interrupted(stage, fail)()
        with pytest.raises(ConflictError):
            stage.execute()
        assert not stage.newest().instants
        assert not orphans(stage.store(), stage.newest())
        assert stage.rows() == ROWS

    def test_c_inflight_and_dead_nobody_can_execute_it(self) -> None:
        stage = scene(cancellable=True)
        die_in_flight(stage)
        for _ in range(2):
            with pytest.raises(ConflictError):
                stage.execute()
        expire(stage)
        for _ in range(2):
            with pytest.raises(ConflictError):
                stage.execute()
        assert stage.roll_back_the_dead() == [stage.plan]
        assert not stage.newest().instants
        assert not orphans(stage.store(), stage.newest())
        with pytest.raises(ConflictError):
            stage.execute()

    def test_d_a_clean_leaves_a_living_one_alone(self) -> None:
        stage = scene(cancellable=True, table_service_rollback_delay=0)
        seen: list[list[str]] = []
        result = interrupted(stage, lambda: seen.append(stage.roll_back_the_dead()))()
        assert isinstance(result, ServiceResult)
        assert seen == [[]]

    def test_d_a_clean_rolls_back_one_whose_heart_stopped(self) -> None:
        stage = scene(cancellable=True)
        seen: list[list[str]] = []

        def clean() -> None:
            expire(stage)
            seen.append(stage.roll_back_the_dead())

        with pytest.raises(FencedError):
            interrupted(stage, clean)()
        assert seen == [[stage.plan]]
        assert stage.rows() == ROWS

    def test_d_and_e_a_young_plan_that_waits_is_left_alone(self) -> None:
        stage = scene(cancellable=True, table_service_rollback_delay=100)
        stage.clock.advance(99)
        assert stage.roll_back_the_dead() == []
        assert not stage.execute().repeated

    def test_e_an_old_plan_is_rolled_back_and_cannot_be_executed(self) -> None:
        stage = scene(cancellable=True, table_service_rollback_delay=100)
        stage.clock.advance(101)
        assert stage.roll_back_the_dead() == [stage.plan]
        with pytest.raises(ConflictError):
            stage.execute()

    def test_e_an_old_plan_may_be_executed_if_the_cleaner_died_before_its_rollback_was_logged(self) -> None:
        stage = scene(cancellable=True, table_service_rollback_delay=100)
        stage.clock.advance(101)
        # Judged, and then nothing: the judgement alone changes nothing.
        assert [found.id for found in dead_instants(stage.store(), stage.newest(), stage.runtime())] == [stage.plan]
        assert not stage.execute().repeated

    def test_a_delay_of_zero_cleans_at_once(self) -> None:
        stage = scene(cancellable=True, table_service_rollback_delay=0)
        assert stage.roll_back_the_dead() == [stage.plan]
        with pytest.raises(ConflictError):
            stage.execute()

    def test_a_rollback_whose_worker_died_is_taken_over(self) -> None:
        stage = scene(cancellable=True)
        die_in_flight(stage)
        expire(stage)
        store = stage.store()

        class Dying:
            """Dies when it is to delete the first file."""

            def __getattr__(self, name: str) -> Any:
                def die(paths: Iterable[str]) -> None:
                    if any(path.startswith("data/") for path in paths):
                        raise Died

                return die if name == "delete" else getattr(store, name)

        with pytest.raises(Died):
            roll_back(Dying(), stage.newest(), stage.plan, stage.runtime(), reason="dead")  # type: ignore[arg-type]
        # Nobody else may execute the plan, or end the rollback while its worker seems to live.
        with pytest.raises(ConflictError):
            stage.execute()
        with pytest.raises(ConflictError):
            roll_back(store, stage.newest(), stage.plan, stage.runtime(), reason="dead")
        expire(stage)
        (rollback,) = stage.roll_back_the_dead()
        assert rollback != stage.plan
        assert not stage.newest().instants
        assert not {path for path in orphans(store, stage.newest()) if "heartbeats" not in path}
        assert stage.rows() == ROWS

    @pytest.mark.parametrize("change", ["upsert", "delete", "present"])
    def test_a_writer_that_was_first_preempts_it_plan_and_all(self, change: str) -> None:
        stage = scene(cancellable=True)
        with pytest.raises(ConflictError, match="replaced or deleted"):
            interrupted(stage, lambda: _change(stage, change, 5))()
        assert not stage.newest().instants
        assert not orphans(stage.store(), stage.newest())
        with pytest.raises(ConflictError):
            stage.execute()
        expected = {**ROWS, 5: {"id": 5, "s": "changed" if change == "upsert" else "new"}}
        if change == "delete":
            del expected[5]
        assert stage.rows() == expected

    @pytest.mark.parametrize("change", ["upsert", "delete"])
    def test_a_writer_before_the_claim_does_not_matter(self, change: str) -> None:
        stage = scene(cancellable=True)
        _change(stage, change, 5)
        stage.execute()
        assert (5 in stage.rows()) == (change == "upsert")

    def test_cancelling_a_waiting_plan_ends_it(self) -> None:
        stage = scene(cancellable=True)
        cancel(stage.store(), stage.newest(), stage.plan, stage.runtime())
        with pytest.raises(ConflictError):
            stage.execute()
        assert stage.roll_back_the_dead() == [stage.plan]
        assert not orphans(stage.store(), stage.newest())

    def test_cancelling_a_running_plan_stops_it(self) -> None:
        stage = scene(cancellable=True)
        with pytest.raises(FencedError, match="cancelled"):
            interrupted(stage, lambda: cancel(stage.store(), stage.newest(), stage.plan, stage.runtime()))()
        assert not stage.newest().instants
        assert not orphans(stage.store(), stage.newest())
        assert stage.rows() == ROWS

    def test_the_work_is_interrupted_when_it_has_become_vain(self) -> None:
        stage = scene(cancellable=True, heartbeat_seconds=0.01)
        store = stage.store()
        stopped = threading.Event()

        def write(state: TableState, plan: Any, runtime: Runtime) -> Any:
            cancel(store, stage.newest(), stage.plan, stage.runtime())
            assert stopped.wait(30)
            raise NeedlefishError("interrupted")

        runtime = Runtime(clock=FakeClock(), chance=random.Random(1))
        with pytest.raises(NeedlefishError, match="interrupted"):
            execute(store, stage.newest(), stage.plan, Worker(write=write, interrupt=stopped.set), runtime)
        assert not stage.newest().instants


def test_plans_over_the_same_files_are_refused() -> None:
    stage = scene(cancellable=True)
    with pytest.raises(ConflictError, match=stage.plan):
        schedule_compaction(stage.store(), stage.newest())
    assert len(list(stage.bare.list("_needlefish/plans/"))) == 1


def test_the_worker_of_the_tests_does_what_a_worker_does() -> None:
    stage = scene(cancellable=True)
    state, result = execute(stage.store(), stage.newest(), stage.plan, local_worker(stage.store()), stage.runtime())
    assert (result.folded, result.files, state.totals.skipped) == (5, 1, 0)
