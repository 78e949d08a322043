"""Instants from entries: which steps an instant can take, and that every other is refused before it reaches the log."""

from collections.abc import Sequence

import pytest

from needlefish.errors import CorruptError
from needlefish.format.log_entry import decode_state, encode_state
from needlefish.model.instant import AttemptId, Claim, Instant, InstantId, InstantStep, PlanSummary, Step
from needlefish.model.log import FORMAT, LogEntry, TableState
from needlefish.store import RetriedStore
from needlefish.timeline import Log, Proposal, read_newest
from needlefish.timeline.instants import Instants, fold_instants
from needlefish.timeline.replay import read_entry

IMMUTABLE = PlanSummary(cancellable=False, files=3)
CANCELLABLE = PlanSummary(cancellable=True, files=3)


def claim(epoch: int = 1, attempt: str = "a") -> Claim:
    return Claim(epoch=epoch, attempt=AttemptId(attempt), owner="test", base=0)


def step(name: str, kind: Step, **said: object) -> InstantStep:
    return InstantStep(id=InstantId(name), step=kind, **said)  # type: ignore[arg-type]


def requested(name: str = "p", plan: PlanSummary = IMMUTABLE) -> InstantStep:
    return step(name, "requested", action="compaction", plan=plan)


def begun(name: str = "w", attempt: str = "a") -> InstantStep:
    """A writer's first step, which needs no request."""
    return step(name, "inflight", action="upsert", claim=claim(attempt=attempt))


def claimed(name: str = "p", epoch: int = 1, attempt: str = "a") -> InstantStep:
    return step(name, "inflight", claim=claim(epoch, attempt))


def rolling_back(target: str = "p", name: str = "r", attempt: str = "b") -> InstantStep:
    return step(name, "inflight", action="rollback", claim=claim(attempt=attempt), target=InstantId(target))


def ended(name: str, kind: Step = "completed", epoch: int = 1, attempt: str = "a") -> InstantStep:
    return step(name, kind, claim=claim(epoch, attempt))


def entry(said: InstantStep | None, version: int = 7) -> LogEntry:
    return LogEntry(format=FORMAT, version=version, token="t", timestamp_ms=1, action="claim", writer="test", instant=said)


def folded(steps: Sequence[InstantStep]) -> Instants:
    instants: Instants = ()
    for version, said in enumerate(steps, 1):
        instants = fold_instants(instants, entry(said, version))
    return instants


def one(steps: Sequence[InstantStep], name: str) -> Instant:
    (found,) = (instant for instant in folded(steps) if instant.id == name)
    return found


def test_an_entry_without_a_step_leaves_all_as_it_was() -> None:
    before = folded([begun()])
    assert fold_instants(before, entry(None)) is before


def test_a_plan_waits_until_it_is_claimed() -> None:
    waiting = one([requested()], "p")
    assert (waiting.action, waiting.requested, waiting.plan, waiting.epoch, waiting.claim) == ("compaction", 1, IMMUTABLE, 0, None)
    taken = one([requested(), claimed()], "p")
    assert (taken.action, taken.requested, taken.plan, taken.epoch, taken.claim) == ("compaction", 1, IMMUTABLE, 1, claim())


def test_work_without_a_plan_begins_with_its_claim() -> None:
    assert folded([begun()]) == (Instant(id=InstantId("w"), action="upsert", requested=1, epoch=1, claim=claim()),)


@pytest.mark.parametrize("kind", ["completed", "rolled_back"])
def test_what_is_over_is_not_in_the_state(kind: Step) -> None:
    assert folded([begun("v"), begun("w"), ended("w", kind)]) == folded([begun("v")])
    assert folded([requested(plan=CANCELLABLE), claimed(), ended("p", kind)]) == ()


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([requested(), claimed(), step("p", "cancelled"), ended("p")], id="completed after it was cancelled"),
        pytest.param([requested(), claimed(), ended("p", "rolled_back")], id="an immutable plan given up"),
        pytest.param([begun("p"), rolling_back(), step("r", "cancelled")], id="a rollback cancelled"),
        pytest.param([begun("p"), rolling_back(), rolling_back("r", "r2", "c")], id="a rollback of a rollback"),
        pytest.param([begun("p"), step("r", "requested", action="rollback", target=InstantId("p"))], id="a rollback that only waits"),
        pytest.param([step("r", "inflight", action="rollback", claim=claim(), target=InstantId("r"))], id="a rollback of itself"),
    ],
)
def test_steps_that_would_leave_something_stuck_or_half_undone_are_refused(steps: Sequence[InstantStep]) -> None:
    folded(steps[:-1])
    with pytest.raises(CorruptError):
        folded(steps)


def test_the_next_epoch_takes_over() -> None:
    steps = [requested(), claimed(), claimed(epoch=2, attempt="b")]
    assert one(steps, "p").claim == claim(2, "b")
    assert folded([*steps, ended("p", epoch=2, attempt="b")]) == ()


def test_a_cancelled_instant_stays_until_it_is_rolled_back() -> None:
    steps = [requested(), claimed(), step("p", "cancelled")]
    assert one(steps, "p").cancelled
    assert folded([*steps, step("p", "cancelled")]) == folded(steps), "asking twice is asking once"
    assert folded([*steps, rolling_back(), ended("r", attempt="b")]) == ()


def test_a_rollback_marks_its_target_from_its_first_entry_on() -> None:
    steps = [requested(), claimed(), rolling_back()]
    assert (one(steps, "p").undone_by, one(steps, "r").target) == ("r", "p")


def test_a_plan_that_retries_goes_back_to_requested_with_its_epoch() -> None:
    steps = [requested(), claimed(), rolling_back(), ended("r", attempt="b")]
    (left,) = folded(steps)
    assert (left.id, left.claim, left.undone_by, left.epoch, left.plan) == ("p", None, None, 1, IMMUTABLE)
    # The epoch goes on, so that the claim of the failed attempt can never be the newest again.
    assert one([*steps, claimed(epoch=2, attempt="c")], "p").claim == claim(2, "c")
    with pytest.raises(CorruptError, match="claims instant p"):
        folded([*steps, claimed(epoch=1, attempt="c")])


@pytest.mark.parametrize(
    "before",
    [
        [requested(plan=CANCELLABLE), claimed()],
        [requested(plan=CANCELLABLE)],
        [begun("p")],
        [requested(), claimed(), step("p", "cancelled")],
        [requested(), step("p", "cancelled")],
    ],
    ids=["cancellable", "cancellable, never executed", "a writer", "immutable, but cancelled", "cancelled before anybody came"],
)
def test_what_does_not_retry_is_over_with_its_rollback(before: list[InstantStep]) -> None:
    assert folded([*before, rolling_back(), ended("r", attempt="b")]) == ()


def test_another_worker_takes_a_rollback_over() -> None:
    steps = [requested(), claimed(), rolling_back(), claimed("r", epoch=2, attempt="c")]
    assert (one(steps, "p").undone_by, one(steps, "r").target, one(steps, "r").claim) == ("r", "p", claim(2, "c"))
    assert [found.id for found in folded([*steps, ended("r", epoch=2, attempt="c")])] == ["p"]


def test_a_plan_is_rolled_back_as_often_as_it_fails() -> None:
    steps = [requested()]
    for epoch in range(1, 5):
        tried = claimed(epoch=epoch, attempt=f"a{epoch}")
        steps += [tried, rolling_back(name=f"r{epoch}"), ended(f"r{epoch}", attempt="b")]
    assert (one(steps, "p").epoch, one(steps, "p").claim) == (4, None)
    assert folded([*steps, claimed(epoch=5, attempt="z"), ended("p", epoch=5, attempt="z")]) == ()


IMPOSSIBLE = {
    "requested twice": ([requested()], requested()),
    "requested without saying what": ([], step("p", "requested")),
    "a claim of nothing known that does not say what": ([], claimed()),
    "a claim without a claim": ([requested()], step("p", "inflight")),
    "the epoch of somebody else": ([requested(), claimed()], claimed(attempt="b")),
    "an epoch too far": ([requested()], claimed(epoch=2)),
    "an epoch of nobody": ([requested()], claimed(epoch=0)),
    "a claim of what is cancelled": ([requested(), step("p", "cancelled")], claimed()),
    "a claim of what is being rolled back": ([requested(), claimed(), rolling_back()], claimed(epoch=2, attempt="c")),
    "a claim of what is over": ([requested(), claimed(), ended("p")], claimed(epoch=2)),
    "completed, never requested": ([], ended("p")),
    "completed, never claimed": ([requested()], ended("p")),
    "completed without a claim": ([begun()], step("w", "completed")),
    "completed twice": ([begun(), ended("w")], ended("w")),
    "completed under an older claim": ([requested(), claimed(), claimed(epoch=2, attempt="b")], ended("p")),
    "completed by another attempt": ([begun()], ended("w", attempt="b")),
    "completed while it is rolled back": ([requested(), claimed(), rolling_back()], ended("p")),
    "completed after it was rolled back": ([requested(), claimed(), rolling_back(), ended("r", attempt="b")], ended("p")),
    "given up under an older claim": ([requested(), claimed(), claimed(epoch=2, attempt="b")], ended("p", "rolled_back")),
    "given up while it is rolled back": ([begun("p"), rolling_back()], ended("p", "rolled_back")),
    "given up, never requested": ([], ended("p", "rolled_back")),
    "cancelled, never requested": ([], step("p", "cancelled")),
    "cancelled when it is over": ([begun(), ended("w")], step("w", "cancelled")),
    "a rollback of nothing": ([], rolling_back()),
    "a rollback of what is over": ([begun("p"), ended("p")], rolling_back()),
    "a second rollback of the same": ([requested(), claimed(), rolling_back()], rolling_back(name="r2", attempt="c")),
    "a rollback that is given up": ([begun("p"), rolling_back()], ended("r", "rolled_back", attempt="b")),
    "a rollback that ends under an older claim": (
        [begun("p"), rolling_back(), claimed("r", epoch=2, attempt="c")],
        ended("r", attempt="b"),
    ),
}


@pytest.mark.parametrize(("before", "said"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_step_that_cannot_be_is_damage(before: list[InstantStep], said: InstantStep) -> None:
    instants = folded(before)
    with pytest.raises(CorruptError, match=r"log/0{18}42\.json: .* (instant|rollback) "):
        fold_instants(instants, entry(said, 42))


@pytest.mark.parametrize(("before", "said"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_step_that_cannot_be_is_never_put(store: RetriedStore, created: TableState, before: list[InstantStep], said: InstantStep) -> None:
    log, state = Log(store, "test"), created
    for known in before:
        state = log.append(state, lambda _, known=known: Proposal(action="claim", instant=known))
    with pytest.raises(CorruptError):
        log.append(state, lambda _: Proposal(action="claim", instant=said))
    assert read_entry(store, state.version + 1) is None
    assert read_newest(store) == state


def test_instants_are_in_checkpoints(store: RetriedStore, created: TableState) -> None:
    log, state = Log(store, "test"), created
    for said in (requested(), claimed(), begun("w"), rolling_back()):
        state = log.append(state, lambda _, said=said: Proposal(action="claim", instant=said))
    assert [found.id for found in state.instants] == ["p", "w", "r"]
    assert decode_state(encode_state(state), "here") == state
    assert read_newest(store) == state


def test_only_the_entry_that_ends_a_clean_says_that_it_is_done(store: RetriedStore, created: TableState) -> None:
    log = Log(store, "test")
    said = step("c", "inflight", action="clean", claim=claim())
    begun_clean = log.append(created, lambda _: Proposal(action="claim", instant=said, oldest=3))
    assert (begun_clean.oldest, begun_clean.cleaned) == (3, 0)
    done = log.append(begun_clean, lambda _: Proposal(action="clean", instant=ended("c"), oldest=3))
    assert (done.oldest, done.cleaned, done.instants) == (3, 3, ())
    older = log.append(done, lambda _: Proposal(action="clean", oldest=2))
    assert (older.oldest, older.cleaned) == (3, 3), "what cannot be read any more never can be again"
