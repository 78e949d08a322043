"""Work of several processes for one attempt: begun once, by whoever is first; ended once, by whoever commits."""

import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from needlefish.errors import ConflictError, FencedError, UnavailableError
from needlefish.model.instant import AttemptId, Claim, InstantId, InstantStep
from needlefish.model.log import TableState, Totals
from needlefish.model.schema import schema_from_text
from needlefish.runtime import Runtime
from needlefish.store import Store
from needlefish.table.create import create_table, define_table
from needlefish.testing.explorer import explore, explore_crashes
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Fault, FaultyStore
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.schedule import Outcome, World
from needlefish.testing.scheduler import Worker
from needlefish.testing.switch_points import every_call, log_appends
from needlefish.testing.timed_store import TimedStore
from needlefish.timeline import Log, Proposal, read_newest
from needlefish.timeline.detached import Detached, abandon, beating, ensure_claimed, resumed
from needlefish.timeline.heartbeat import HEARTBEAT_PREFIX, heartbeat_path, read_pulse, read_pulses
from needlefish.timeline.replay import read_entries

ATTEMPT = AttemptId("00c0ffee00c0ffee")
# Long enough for a thread to be heard of on any machine; nothing waits so long unless the test fails.
PATIENCE_SECONDS = 60.0


def quiet() -> Runtime:
    return Runtime(clock=FakeClock(), threads=False)


def made(store: Store, **properties: object) -> TableState:
    return create_table(store, define_table(schema_from_text("id string"), "id", (), properties))


def drawn(base: int = 0) -> Detached:
    return Detached(attempt=ATTEMPT, action="append", base=base)


def grown(_: TableState | None = None) -> Proposal:
    return Proposal(action="append", added=Totals(rows=1))


def steps(store: Store) -> list[tuple[str, str | None]]:
    """What every entry after the first says, oldest first."""
    found = list(read_entries(store, 1, read_newest(store).version))[::-1]
    return [(entry.action, None if entry.instant is None else entry.instant.step) for entry in found]


def append(store: Store, proposal: Proposal) -> TableState:
    """An entry of another worker."""
    return Log(store, "other", quiet()).append(read_newest(store), lambda _: proposal)


def begin_to_roll_back(store: Store) -> None:
    claim = Claim(epoch=1, attempt=AttemptId("feed0123"), owner="other", base=0)
    step = InstantStep(id=InstantId("undo"), step="inflight", action="rollback", claim=claim, target=InstantId(ATTEMPT))
    append(store, Proposal(action="claim", instant=step))


def roll_back(store: Store) -> None:
    begin_to_roll_back(store)
    claim = Claim(epoch=1, attempt=AttemptId("feed0123"), owner="other", base=0)
    append(store, Proposal(action="rollback", instant=InstantStep(id=InstantId("undo"), step="completed", claim=claim)))


def cancel(store: Store) -> None:
    append(store, Proposal(action="cancel", instant=InstantStep(id=InstantId(ATTEMPT), step="cancelled")))


def complete(store: Store) -> None:
    with resumed(store, read_newest(store), drawn(), quiet()) as work:
        work.commit(work.state, grown)


def give_up(store: Store) -> None:
    abandon(store, read_newest(store), drawn(), "on purpose", quiet())


class TestBeginning:
    def test_the_first_begins_and_the_others_find_it(self) -> None:
        store = MemoryStore()
        state = made(store)
        detached = pickle.loads(pickle.dumps(drawn()))
        first = ensure_claimed(store, state, detached, quiet())
        assert ensure_claimed(store, state, detached, quiet()) == first
        (found,) = first.instants
        assert found.claim is not None
        assert (found.id, found.action, found.epoch, found.claim.attempt, found.claim.base) == (ATTEMPT, "append", 1, ATTEMPT, 0)
        assert steps(store) == [("claim", "inflight")]

    def test_the_heartbeat_is_there_before_the_claim_and_stays(self) -> None:
        inner = MemoryStore()
        properties = made(inner).definition.properties
        store = FaultyStore(inner, lambda call: None)
        with beating(store, drawn(), properties, quiet()):
            written = [(call.kind, call.path.split("/")[1]) for call in store.calls if call.kind not in ("get", "list")]
            assert written == [("put", "heartbeats"), ("put_if_absent", "log")]
        assert [found.path for found in inner.list(HEARTBEAT_PREFIX)] == [heartbeat_path(ATTEMPT)]
        assert [found.id for found in read_newest(inner).instants] == [ATTEMPT]

    def test_without_a_heartbeat_there_is_no_claim(self) -> None:
        inner = MemoryStore()
        state = made(inner)
        store = FaultyStore(inner, lambda call: Fault.UNAVAILABLE if call.path.startswith(HEARTBEAT_PREFIX) else None)
        with pytest.raises(UnavailableError), beating(store, drawn(), state.definition.properties, quiet()):
            pytest.fail("the work must not begin")
        assert read_newest(inner) == state

    def test_a_version_that_was_cleaned_is_no_base(self) -> None:
        store = MemoryStore()
        state = made(store)
        append(store, Proposal(action="clean", oldest=1))
        with pytest.raises(ConflictError, match="version 0 was cleaned"):
            ensure_claimed(store, state, drawn(), quiet())

    def test_a_task_that_fails_leaves_the_instant_to_the_others(self) -> None:
        store = MemoryStore()
        properties = made(store).definition.properties
        with pytest.raises(RuntimeError), beating(store, drawn(), properties, quiet()):
            raise RuntimeError("on purpose")
        with beating(store, drawn(), properties, quiet()):
            pass
        complete(store)
        assert steps(store) == [("claim", "inflight"), ("append", "completed")]

    def test_the_last_beat_comes_at_the_end(self) -> None:
        """The commit may take its time to begin, as long as any attempt may be silent."""
        clock = FakeClock()
        store = TimedStore(MemoryStore(), clock)
        properties = made(store).definition.properties
        with beating(store, drawn(), properties, quiet()):
            clock.advance(119)
        clock.advance(119)
        assert read_pulses(store, properties, quiet()).is_alive(ATTEMPT)

    def test_it_beats_while_the_task_works(self) -> None:
        store = FaultyStore(MemoryStore(), lambda call: None)
        properties = made(store, heartbeat_seconds=0.001).definition.properties

        def beats() -> int:
            return sum(call.kind == "put" and call.path == heartbeat_path(ATTEMPT) for call in store.calls)

        pause = threading.Event()
        with beating(store, drawn(), properties, Runtime()) as heartbeat:
            heartbeat.say("write", 3, 10)
            for _ in range(round(PATIENCE_SECONDS / 0.005)):
                if beats() >= 5:
                    break
                pause.wait(0.005)
        last = beats()
        assert last >= 5
        pause.wait(0.02)
        assert beats() == last, "no beat follows the end"
        pulse = read_pulse(store, ATTEMPT)
        assert pulse is not None
        assert (pulse.stage, pulse.done, pulse.total) == ("write", 3, 10)


OVER = {"completed": complete, "given up": give_up, "rolled back": roll_back}
STOPPED = {"being rolled back": begin_to_roll_back, "cancelled": cancel}
Meanwhile = Callable[[Store], None]


@pytest.mark.parametrize("meanwhile", (OVER | STOPPED).values(), ids=OVER | STOPPED)
class TestTooLate:
    """What is over stays over: neither a task nor a commit can begin it again."""

    def test_a_task(self, meanwhile: Meanwhile) -> None:
        store = MemoryStore()
        state = made(store)
        ensure_claimed(store, state, drawn(), quiet())
        append(store, grown())
        meanwhile(store)
        append(store, grown())
        left = read_newest(store)
        # One knows the version that the attempt read, another has just opened the table.
        with pytest.raises(FencedError), beating(store, drawn(), state.definition.properties, quiet()):
            pytest.fail("the work must not begin")
        for known in (state, left):
            with pytest.raises(FencedError):
                ensure_claimed(store, known, drawn(), quiet())
        assert read_newest(store) == left

    def test_a_commit(self, meanwhile: Meanwhile) -> None:
        store = MemoryStore()
        state = ensure_claimed(store, made(store), drawn(), quiet())
        meanwhile(store)
        left = read_newest(store)
        with pytest.raises(FencedError), resumed(store, state, drawn(), quiet()):
            pytest.fail("the work must not begin")
        assert read_newest(store) == left


class TestEnding:
    def test_the_commit_ends_it(self) -> None:
        store = MemoryStore()
        state = ensure_claimed(store, made(store), drawn(), quiet())
        with resumed(store, state, drawn(), quiet()) as work:
            assert work.runtime.new_id().startswith(ATTEMPT)
            assert work.commit(work.state, grown).totals.rows == 1
        assert (read_newest(store).instants, list(store.list(HEARTBEAT_PREFIX))) == ((), [])
        assert steps(store) == [("claim", "inflight"), ("append", "completed")]

    def test_what_nobody_has_begun_the_commit_begins(self) -> None:
        store = MemoryStore()
        made(store)
        complete(store)
        assert steps(store) == [("claim", "inflight"), ("append", "completed")]

    @pytest.mark.parametrize("error", [None, RuntimeError("on purpose"), KeyboardInterrupt()])
    def test_a_block_without_a_commit_ends_it(self, error: BaseException | None) -> None:
        store = MemoryStore()
        state = ensure_claimed(store, made(store), drawn(), quiet())

        def fail() -> None:
            with resumed(store, state, drawn(), quiet()):
                if error is not None:
                    raise error

        if error is None:
            fail()
        else:
            with pytest.raises(type(error)):
                fail()
        (last,) = read_entries(store, 2, 2)
        assert last.instant is not None
        reason = "nothing to do" if error is None else f"{type(error).__name__}: {error}"
        assert (last.action, last.instant.step, last.instant.reason) == ("rollback", "rolled_back", reason)
        assert (read_newest(store).instants, list(store.list(HEARTBEAT_PREFIX))) == ((), [])

    def test_the_claim_alone_is_no_other_version(self) -> None:
        store = MemoryStore()
        state = made(store)
        ensure_claimed(store, state, drawn(), quiet())
        with resumed(store, state, drawn(), quiet()) as work:
            assert work.since(state) is work.state
        other = MemoryStore()
        state = made(other)
        ensure_claimed(other, state, drawn(), quiet())
        append(other, grown())
        with resumed(other, state, drawn(), quiet()) as work:
            assert work.since(state) is state

    def test_fenced_at_the_last_moment(self) -> None:
        store = MemoryStore()
        state = ensure_claimed(store, made(store), drawn(), quiet())

        def wake_up() -> None:
            with resumed(store, state, drawn(), quiet()) as work:
                roll_back(store)
                work.commit(work.state, grown)

        with pytest.raises(FencedError, match="rolled back by another worker"):
            wake_up()
        assert read_newest(store).totals.rows == 0

    def test_giving_up(self) -> None:
        store = MemoryStore()
        state = made(store)
        assert abandon(store, state, drawn(), "too early", quiet()) == state
        ensure_claimed(store, state, drawn(), quiet())
        after = abandon(store, state, drawn(), "on purpose", quiet())
        assert (after.instants, list(store.list(HEARTBEAT_PREFIX))) == ((), [])
        assert abandon(store, state, drawn(), "again", quiet()) == after == read_newest(store)
        (last,) = read_entries(store, after.version, after.version)
        assert last.instant is not None
        assert (last.instant.step, last.instant.reason) == ("rolled_back", "on purpose")

    def test_giving_up_leaves_a_rollback_alone(self) -> None:
        store = MemoryStore()
        ensure_claimed(store, made(store), drawn(), quiet())
        begin_to_roll_back(store)
        left = read_newest(store)
        assert abandon(store, left, drawn(), "on purpose", quiet()) == left == read_newest(store)


@dataclass(frozen=True, kw_only=True)
class Scene(World):
    state: TableState


def make() -> Scene:
    clock = FakeClock()
    store = MemoryStore(clock)
    return Scene(store=store, clock=clock, state=made(store))


def task(scene: Scene, worker: Worker) -> object:
    return ensure_claimed(worker.store(), scene.state, drawn(), worker.runtime()).version


def commit(scene: Scene, worker: Worker) -> object:
    with resumed(worker.store(), scene.state, drawn(), worker.runtime()) as work:
        return work.commit(work.state, grown).version


def other(scene: Scene, worker: Worker) -> object:
    return Log(worker.store(), "other", worker.runtime()).append(scene.state, grown).version


def said(scene: Scene) -> list[str]:
    """The steps of the attempt, oldest first."""
    found = list(read_entries(scene.store, 1, read_newest(scene.store).version))[::-1]
    return [entry.instant.step for entry in found if entry.instant is not None and entry.instant.id == ATTEMPT]


class TestRaces:
    """In every order of the log appends, and with a switch at any call."""

    def test_tasks_race_for_the_claim(self) -> None:
        def check(scene: Scene, outcomes: list[Outcome]) -> None:
            for outcome in outcomes:
                outcome.result()
            assert said(scene) == ["inflight"]
            assert [found.id for found in read_newest(scene.store).instants] == [ATTEMPT]

        assert explore(make, [task, task, task, other], check, switches=None, relevant=log_appends).schedules > 4
        assert explore(make, [task, task], check, switches=1, relevant=every_call).schedules > 4

    def test_a_task_that_comes_late_begins_nothing_again(self) -> None:
        """Begun after the commit, the attempt would be rolled back some day, with the rows of the commit."""
        fenced: list[bool] = []

        def check(scene: Scene, outcomes: list[Outcome]) -> None:
            outcomes[0].result()
            late = outcomes[1].error
            assert late is None or isinstance(late, FencedError)
            fenced.append(late is not None)
            assert said(scene) == ["inflight", "completed"]
            assert read_newest(scene.store).instants == ()

        for relevant, switches in ((log_appends, None), (every_call, 1)):
            explore(make, [commit, task], check, switches=switches, relevant=relevant)
        assert set(fenced) == {True, False}

    def test_a_task_dies_anywhere(self) -> None:
        def check(scene: Scene, outcomes: list[Outcome]) -> None:
            outcomes[1].result()
            assert said(scene) == ["inflight", "completed"]
            assert read_newest(scene.store).instants == ()

        assert explore_crashes(make, [task, commit], check, switches=0).injected > 4
