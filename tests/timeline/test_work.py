"""Work on the timeline: who may end an instant, what a heartbeat promises, and what is left when work fails."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import pytest

from needlefish.errors import ConflictError, FencedError, NotFoundError, UnavailableError
from needlefish.model.definition import Properties
from needlefish.model.instant import AttemptId, Claim, InstantId, InstantStep, PlanSummary, Step
from needlefish.model.log import Action, TableState, Totals
from needlefish.model.schema import schema_from_text
from needlefish.runtime import Runtime
from needlefish.store import Store
from needlefish.table.create import create_table, define_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Call, Fault, FaultyStore
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.timed_store import TimedStore
from needlefish.timeline import Log, Proposal, Start, Work, read_newest, working
from needlefish.timeline.heartbeat import HEARTBEAT_PREFIX, Heartbeat, heartbeat_path, read_pulse, read_pulses
from needlefish.timeline.replay import read_entries
from needlefish.timeline.work import claimed

# Long enough for a thread to be heard of on any machine; nothing waits so long unless the test fails.
PATIENCE_SECONDS = 60.0
HOUR_MS = 3_600_000


def quiet(clock: FakeClock | None = None) -> Runtime:
    """Nothing happens beside the work."""
    return Runtime(clock=clock or FakeClock(), threads=False)


def made(store: Store, **properties: object) -> TableState:
    return create_table(store, define_table(schema_from_text("id string"), "id", (), properties))


def grown(_: TableState | None = None) -> Proposal:
    return Proposal(action="append", added=Totals(rows=1))


def steps(store: Store, state: TableState) -> list[tuple[str, str | None]]:
    """What every entry after the first says, oldest first."""
    found = list(read_entries(store, 1, state.version))[::-1]
    return [(entry.action, None if entry.instant is None else entry.instant.step) for entry in found]


def say(store: Store, action: Action, instant: str, kind: Step, /, **said: object) -> TableState:
    """An entry of another worker."""
    step = InstantStep(id=InstantId(instant), step=kind, **said)  # type: ignore[arg-type]
    return Log(store, "other", quiet()).append(read_newest(store), lambda _: Proposal(action=action, instant=step))


def others_claim(epoch: int = 1, attempt: str = "feed0123") -> Claim:
    return Claim(epoch=epoch, attempt=AttemptId(attempt), owner="other", base=0)


def roll_back(store: Store, instant: str) -> None:
    say(store, "claim", "undo", "inflight", action="rollback", claim=others_claim(), target=InstantId(instant))
    say(store, "rollback", "undo", "completed", claim=others_claim())


def planned(store: Store, *, cancellable: bool = False) -> TableState:
    return say(store, "request", "plan", "requested", action="compaction", plan=PlanSummary(cancellable=cancellable))


class TestCalls:
    """What a piece of work puts and deletes, in order."""

    def test_the_heartbeat_is_there_before_the_claim_and_goes_with_the_work(self) -> None:
        inner = MemoryStore()
        state = made(inner)
        store = FaultyStore(inner, lambda call: None)
        with working(store, state, Start(action="append"), quiet()) as work:
            assert inner.get(heartbeat_path(work.claim.attempt))
            work.commit(state, grown)
        written = [(call.kind, call.path.split("/")[1]) for call in store.calls if call.kind not in ("get", "list")]
        assert written == [
            ("put", "heartbeats"),
            ("put_if_absent", "log"),
            ("put_if_absent", "log"),
            ("put", "checkpoints"),
            ("delete", "heartbeats"),
        ]
        assert not list(inner.list(HEARTBEAT_PREFIX))
        assert steps(inner, work.state) == [("claim", "inflight"), ("append", "completed")]
        assert (work.state.totals.rows, work.state.instants) == (1, ())

    def test_without_a_heartbeat_there_is_no_claim(self) -> None:
        inner = MemoryStore()
        state = made(inner)
        store = FaultyStore(inner, lambda call: Fault.UNAVAILABLE if call.path.startswith(HEARTBEAT_PREFIX) else None)
        with pytest.raises(UnavailableError), working(store, state, Start(action="append"), quiet()):
            pytest.fail("the work must not begin")
        assert read_newest(inner) == state

    def test_ids_carry_the_attempt(self) -> None:
        store = MemoryStore()
        with working(store, made(store), Start(action="append"), quiet()) as work:
            made_id = work.runtime.new_id()
        assert (len(work.claim.attempt), len(made_id), made_id.startswith(work.claim.attempt)) == (16, 48, True)
        assert work.instant == work.claim.attempt

    def test_a_claim_that_is_not_admitted_leaves_nothing(self) -> None:
        store = MemoryStore()
        state = made(store)

        def refuse(_: TableState) -> None:
            raise ConflictError("no")

        with pytest.raises(ConflictError), working(store, state, Start(action="append"), quiet(), refuse):
            pytest.fail("the work must not begin")
        assert (read_newest(store), list(store.list(HEARTBEAT_PREFIX))) == (state, [])

    def test_a_version_that_was_cleaned_is_no_base(self) -> None:
        store = MemoryStore()
        state = made(store)
        Log(store, "other", quiet()).append(state, lambda _: Proposal(action="clean", oldest=1))
        with pytest.raises(ConflictError, match="version 0 was cleaned"), working(store, state, Start(action="append"), quiet()):
            pytest.fail("the work must not begin")


class TestEnds:
    """Work ends in exactly one entry, whatever happens."""

    @pytest.mark.parametrize("error", [RuntimeError("on purpose"), KeyboardInterrupt(), ConflictError("met another")])
    def test_an_error_ends_the_instant_and_says_why(self, error: BaseException) -> None:
        store = MemoryStore()
        state = made(store)
        with pytest.raises(type(error)), working(store, state, Start(action="append"), quiet()):
            raise error
        after = read_newest(store)
        assert steps(store, after) == [("claim", "inflight"), ("rollback", "rolled_back")]
        assert (after.instants, after.totals, list(store.list(HEARTBEAT_PREFIX))) == ((), state.totals, [])
        (last,) = read_entries(store, after.version, after.version)
        assert last.instant is not None
        assert str(last.instant.reason).startswith(type(error).__name__)

    def test_nothing_to_do_ends_it_too(self) -> None:
        store = MemoryStore()
        with working(store, made(store), Start(action="append"), quiet()) as work:
            work.commit(work.state, lambda _: None)
        assert steps(store, work.state) == [("claim", "inflight"), ("rollback", "rolled_back")]
        assert work.state == read_newest(store)

    def test_an_error_after_the_commit_undoes_nothing(self) -> None:
        store = MemoryStore()
        state = made(store)

        def fail_late() -> None:
            with working(store, state, Start(action="append"), quiet()) as work:
                work.commit(state, grown)
                raise RuntimeError("too late")

        with pytest.raises(RuntimeError, match="too late"):
            fail_late()
        assert steps(store, read_newest(store)) == [("claim", "inflight"), ("append", "completed")]

    def test_the_error_is_the_one_that_is_raised_when_the_end_fails_too(self) -> None:
        inner = MemoryStore()
        state = made(inner)
        broken = threading.Event()
        store = FaultyStore(inner, lambda call: Fault.UNAVAILABLE if broken.is_set() else None)

        def fail_twice() -> None:
            with working(store, state, Start(action="append"), quiet()):
                broken.set()
                raise RuntimeError("the first")

        with pytest.raises(RuntimeError, match="the first"):
            fail_twice()
        # It is left to a clean, which sees whose it was.
        assert [found.action for found in read_newest(inner).instants] == ["append"]

    def test_a_rollback_that_fails_is_left_to_the_next(self) -> None:
        store = MemoryStore()
        made(store)
        state = say(store, "claim", "dead", "inflight", action="upsert", claim=others_claim())
        start = Start(action="rollback", target=InstantId("dead"))
        with pytest.raises(RuntimeError), working(store, state, start, quiet()) as work:
            raise RuntimeError("on purpose")
        left = read_newest(store)
        assert [(found.id, found.undone_by) for found in left.instants] == [("dead", work.instant), (work.instant, None)]
        with claimed(store, left, work.instant, quiet()) as second:
            second.commit(left, lambda _: Proposal(action="rollback"))
        assert second.state.instants == ()


def roll_back_now(store: Store, work: Work) -> None:
    roll_back(store, work.instant)


def begin_to_roll_back(store: Store, work: Work) -> None:
    say(store, "claim", "undo", "inflight", action="rollback", claim=others_claim(), target=work.instant)


def take_over(store: Store, work: Work) -> None:
    say(store, "claim", work.instant, "inflight", claim=others_claim(epoch=work.claim.epoch + 1))


def cancel(store: Store, work: Work) -> None:
    say(store, "cancel", work.instant, "cancelled")


MEANWHILE = {"rolled back": roll_back_now, "being rolled back": begin_to_roll_back, "taken over": take_over, "cancelled": cancel}
Meanwhile = Callable[[Store, Work], None]
Begin = Callable[[Store], AbstractContextManager[Work]]


@contextmanager
def a_writer(store: Store) -> Iterator[Work]:
    with working(store, made(store), Start(action="append"), quiet()) as work:
        yield work


@contextmanager
def an_executor(store: Store) -> Iterator[Work]:
    made(store)
    with claimed(store, planned(store), InstantId("plan"), quiet()) as work:
        yield work


@pytest.mark.parametrize("begin", [a_writer, an_executor])
@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
class TestFencing:
    """A process that was taken for dead cannot commit, at the first moment as at the last."""

    def test_before_the_commit(self, begin: Begin, meanwhile: Meanwhile) -> None:
        store = MemoryStore()

        def wake_up() -> None:
            with begin(store) as work:
                meanwhile(store, work)
                work.commit(work.state, grown)

        with pytest.raises(FencedError, match="nothing of it was committed"):
            wake_up()
        assert read_newest(store).totals.rows == 0

    def test_between_the_look_and_the_put(self, begin: Begin, meanwhile: Meanwhile) -> None:
        store = MemoryStore()
        looks: list[int] = []

        def propose(newest: TableState | None, work: Work) -> Proposal:
            assert newest is not None
            looks.append(newest.version)
            if len(looks) == 1:
                # The state that was looked at has the claim still; the entry that it would follow is another's by now.
                assert work.check(newest).claim == work.claim
                meanwhile(store, work)
            return grown()

        def wake_up() -> None:
            with begin(store) as work:
                work.commit(work.state, lambda newest: propose(newest, work))

        with pytest.raises(FencedError):
            wake_up()
        assert len(looks) == 2
        assert read_newest(store).totals.rows == 0

    def test_after_the_answer_was_lost(self, begin: Begin, meanwhile: Meanwhile) -> None:
        """The other was first, and the zombie's put has an answer that never came."""
        inner = MemoryStore()
        due = threading.Event()

        def schedule(call: Call) -> Fault | None:
            return Fault.LOST_RESPONSE if due.is_set() and call.kind == "put_if_absent" else None

        def propose(work: Work) -> Proposal:
            if not due.is_set():
                meanwhile(inner, work)
                due.set()
            return grown()

        def wake_up() -> None:
            with begin(FaultyStore(inner, schedule)) as work:
                work.commit(work.state, lambda _: propose(work))

        with pytest.raises(FencedError):
            wake_up()
        assert read_newest(inner).totals.rows == 0


class TestClaims:
    def test_the_second_claim_fences_the_first(self) -> None:
        store = MemoryStore()
        made(store)
        state = planned(store)
        with claimed(store, state, InstantId("plan"), quiet()) as first, claimed(store, state, InstantId("plan"), quiet()) as second:
            assert (first.claim.epoch, second.claim.epoch) == (1, 2)
            with pytest.raises(FencedError, match="taken over"):
                first.commit(first.state, grown)
            assert second.commit(second.state, grown).totals.rows == 1
        assert first.claim.attempt != second.claim.attempt

    @pytest.mark.parametrize("end", ["completed", "rolled_back"])
    def test_what_is_over_cannot_be_claimed(self, end: Step) -> None:
        store = MemoryStore()
        made(store)
        state = planned(store, cancellable=True)
        say(store, "claim", "plan", "inflight", claim=others_claim())
        say(store, "compaction" if end == "completed" else "rollback", "plan", end, claim=others_claim())
        with pytest.raises(NotFoundError, match="instant plan is over"), claimed(store, state, InstantId("plan"), quiet()):
            pytest.fail("the work must not begin")
        assert not list(store.list(HEARTBEAT_PREFIX))

    @pytest.mark.parametrize("undone", [False, True])
    def test_what_is_cancelled_or_rolled_back_cannot_be_claimed(self, undone: bool) -> None:
        store = MemoryStore()
        made(store)
        state = planned(store)
        if undone:
            say(store, "claim", "undo", "inflight", action="rollback", claim=others_claim(), target=InstantId("plan"))
        else:
            say(store, "cancel", "plan", "cancelled")
        with pytest.raises(ConflictError, match="cannot be executed any more"), claimed(store, state, InstantId("plan"), quiet()):
            pytest.fail("the work must not begin")


class DyingStore(MemoryStore):
    """Beats beyond the first raise something that no store raises, which ends the thread that beats."""

    def __init__(self) -> None:
        super().__init__()
        self.beats = 0
        self.healthy = False

    def put(self, path: str, data: bytes) -> None:
        if path.startswith(HEARTBEAT_PREFIX):
            self.beats += 1
            if self.beats > 1 and not self.healthy:
                raise ZeroDivisionError("a bug")
        super().put(path, data)


def until(happened: Callable[[], bool]) -> None:
    """Waits for a thread. Nothing is measured: a test that waits in vain fails."""
    pause = threading.Event()
    for _ in range(round(PATIENCE_SECONDS / 0.005)):
        if happened():
            return
        pause.wait(0.005)
    pytest.fail("the thread was never heard of")


class TestThread:
    """The thread that beats: with the work, restarted when it dies, and loud when that does not help."""

    def beating(self, store: Store) -> Heartbeat:
        heartbeat = Heartbeat(store, AttemptId("abc"), 0.001, Runtime())
        heartbeat.start()
        return heartbeat

    def test_it_beats_until_it_is_stopped(self) -> None:
        store = FaultyStore(MemoryStore(), lambda call: None)
        heartbeat = self.beating(store)
        until(lambda: sum(call.kind == "put" for call in store.calls) >= 5)
        heartbeat.stop()
        calls = len(store.calls)
        assert (store.calls[-1].kind, list(store.list(HEARTBEAT_PREFIX))) == ("delete", [])
        assert threading.Event().wait(0.02) is False
        assert len(store.calls) == calls + 1, "no beat follows the end"

    def test_it_is_started_again(self) -> None:
        store = DyingStore()
        heartbeat = self.beating(store)
        until(lambda: not heartbeat._ticker.is_alive)
        store.healthy = True
        beats = store.beats
        heartbeat.say("write")
        until(lambda: store.beats >= beats + 3)
        pulse = read_pulse(store, "abc")
        assert pulse is not None
        assert pulse.stage == "write"
        heartbeat.stop()

    def test_it_fails_the_work_when_it_keeps_dying(self) -> None:
        store = DyingStore()
        heartbeat = self.beating(store)
        for _ in range(3):
            until(lambda: not heartbeat._ticker.is_alive)
            heartbeat.check()
        until(lambda: not heartbeat._ticker.is_alive)
        with pytest.raises(FencedError, match=r"died 4 times \(ZeroDivisionError\('a bug'\)\)") as raised:
            heartbeat.check()
        assert isinstance(raised.value.__cause__, ZeroDivisionError)
        heartbeat.stop()

    def test_dead_hearts_do_not_commit(self) -> None:
        store = DyingStore()
        state = made(store, heartbeat_seconds=0.001)

        def go_on() -> None:
            with working(store, state, Start(action="append"), Runtime()) as work:
                while True:
                    until(lambda: not work.heartbeat._ticker.is_alive)
                    work.complete(work.state, grown())

        with pytest.raises(FencedError, match="the heartbeat died"):
            go_on()
        assert read_newest(store).totals.rows == 0

    def test_a_store_that_fails_costs_beats_and_nothing_else(self) -> None:
        failing = threading.Event()
        store = FaultyStore(MemoryStore(), lambda call: Fault.UNAVAILABLE if failing.is_set() else None)
        heartbeat = self.beating(store)
        failing.set()
        failed = len(store.injected)
        until(lambda: len(store.injected) >= failed + 3)
        assert heartbeat._ticker.is_alive
        failing.clear()
        beats = len(store.calls)
        until(lambda: len(store.calls) >= beats + 3)
        heartbeat.stop()
        assert not list(store.list(HEARTBEAT_PREFIX))

    def test_a_slow_store_holds_up_neither_work_nor_later_beats(self) -> None:
        """A beat takes far longer than the interval: the work goes on meanwhile, and the next beat follows it."""
        gate, slow = threading.Event(), threading.Event()
        inner = MemoryStore()

        class Slow(FaultyStore):
            def put(self, path: str, data: bytes) -> None:
                if path.startswith(HEARTBEAT_PREFIX) and slow.is_set() and not gate.is_set():
                    gate.wait(PATIENCE_SECONDS)
                super().put(path, data)

        store = Slow(inner, lambda call: None)
        state = made(inner, heartbeat_seconds=0.001)
        with working(store, state, Start(action="append"), Runtime()) as work:
            slow.set()
            work.heartbeat.say("write")
            assert work.commit(state, grown).totals.rows == 1, "committed while the beat hangs"
            gate.set()
            beats = sum(call.path.startswith(HEARTBEAT_PREFIX) for call in store.calls)
            until(lambda: sum(call.path.startswith(HEARTBEAT_PREFIX) for call in store.calls) >= beats + 3)
        assert not list(inner.list(HEARTBEAT_PREFIX))


class TestStoreTime:
    """Age is counted in the store's time, however wrong the clocks of workers are."""

    @pytest.mark.parametrize("workers_hours", [-50, 0, 50])
    @pytest.mark.parametrize("judges_hours", [-50, 0, 50])
    def test_clocks_that_are_wrong_by_hours(self, workers_hours: int, judges_hours: int) -> None:
        clock = FakeClock()
        store = TimedStore(MemoryStore(), clock)
        worker = quiet(FakeClock(clock.now_ms() + workers_hours * HOUR_MS))
        judge = quiet(FakeClock(clock.now_ms() + judges_hours * HOUR_MS))
        state = made(store)
        properties = state.definition.properties
        with working(store, state, Start(action="append"), worker) as work:
            attempt = work.claim.attempt
            assert read_pulses(store, properties, judge).is_alive(attempt)
            clock.advance(120)
            on_time = read_pulses(store, properties, judge)
            assert (on_time.is_alive(attempt), on_time.age_ms(attempt)) == (True, 120_000)
            clock.advance(0.001)
            late = read_pulses(store, properties, judge)
            assert (late.is_alive(attempt), late.age_ms(attempt)) == (False, 120_001)
            work.heartbeat.beat()
            assert read_pulses(store, properties, judge).is_alive(attempt)
        gone = read_pulses(store, properties, judge)
        assert (gone.is_alive(attempt), gone.age_ms(attempt)) == (False, None)

    def test_asking_for_the_time_leaves_nothing(self) -> None:
        inner = MemoryStore()
        store = FaultyStore(inner, lambda call: None)
        pulses = read_pulses(store, Properties(), quiet())
        assert (pulses.seen_ms, pulses.expired_ms) == ({}, 120_000)
        assert [call.kind for call in store.calls] == ["list", "put", "head", "delete"]
        assert not list(inner.list(HEARTBEAT_PREFIX))

    def test_the_properties_decide_when_it_is_dead(self) -> None:
        clock = FakeClock()
        store = TimedStore(MemoryStore(), clock)
        state = made(store)
        with working(store, state, Start(action="append"), quiet()) as work:
            clock.advance(30)
            for seconds, missed, alive in ((10.0, 3, True), (10.0, 2, False), (29.0, 1, False), (30.0, 1, True)):
                judged = replace(state.definition.properties, heartbeat_seconds=seconds, heartbeats_missed=missed)
                assert read_pulses(store, judged, quiet()).is_alive(work.claim.attempt) == alive

    def test_what_an_attempt_says_of_itself(self) -> None:
        store = MemoryStore()
        with working(store, made(store), Start(action="append"), quiet()) as work:
            work.heartbeat.say("rows", 3, 10)
            work.heartbeat.beat()
            pulse = read_pulse(store, work.claim.attempt)
            assert pulse is not None
            assert (pulse.stage, pulse.done, pulse.total, pulse.owner) == ("rows", 3, 10, work.claim.owner)
        assert read_pulse(store, work.claim.attempt) is None
