"""Instants: units of work on the timeline that are not over yet, as the log tells them."""

from dataclasses import dataclass
from typing import Literal, NewType

InstantId = NewType("InstantId", str)
# One execution of an instant. The ids of all objects that it makes begin with it, and its heartbeat has its name.
AttemptId = NewType("AttemptId", str)

# Do not rename: these are in every log.
Step = Literal["requested", "inflight", "completed", "cancelled", "rolled_back"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Who may execute an instant. Of several claims the one with the greatest epoch counts, and no other may commit."""

    epoch: int
    attempt: AttemptId
    # Words for people: whose process it is.
    owner: str
    # The version that the attempt reads. All that this version and later ones need stays while the claim is alive.
    base: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """What a plan is going to read, in figures. The files themselves are named in an object of the plan's own."""

    cancellable: bool
    files: int = 0
    rows: int = 0
    bytes: int = 0
    partitions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantStep:
    """What one entry says of an instant. The first step of an instant also says what is to be done."""

    id: InstantId
    step: Step
    action: str | None = None
    claim: Claim | None = None
    plan: PlanSummary | None = None
    # Of a rollback alone: the instant it undoes.
    target: InstantId | None = None
    # Words for people: why.
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """An instant between its first entry and its last."""

    id: InstantId
    action: str
    # The version that requested it.
    requested: int
    plan: PlanSummary | None = None
    # The greatest of any claim so far; 0 means that nobody has ever executed it.
    epoch: int = 0
    # The newest claim; absent before the first and after a failed attempt was rolled back.
    claim: Claim | None = None
    # Somebody has asked it to stop.
    cancelled: bool = False
    # The rollback that undoes it; from its first entry on the instant cannot commit.
    undone_by: InstantId | None = None
    target: InstantId | None = None

    @property
    def retries(self) -> bool:
        """Whether a failed attempt leaves the plan standing."""
        return self.plan is not None and not self.plan.cancellable and not self.cancelled
