"""What is going on: every instant that is not over, as a person wants to see it."""

from collections.abc import Iterator
from dataclasses import dataclass

from needlefish.errors import NeedlefishError
from needlefish.model.instant import Instant
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.dead import plan_age_ms
from needlefish.store import Store
from needlefish.timeline.heartbeat import Pulse, Pulses, read_pulse, read_pulses
from needlefish.timeline.replay import read_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantStatus:
    """One instant. Ages are in seconds of the store's time; what has no figure is None."""

    id: str
    action: str
    # requested, inflight, completed or rolled back.
    state: str
    cancellable: bool | None = None
    epoch: int = 0
    owner: str | None = None
    age_seconds: float | None = None
    heartbeat_seconds: float | None = None
    files: int | None = None
    rows: int | None = None
    bytes: int | None = None
    # A stage, and how many of how many.
    progress: str | None = None
    waits_for: str | None = None
    # The version that requested it, or the one that ended it.
    version: int


def read_status(store: Store, state: TableState, runtime: Runtime = SYSTEM, *, ended: int = 0) -> list[InstantStatus]:
    """All instants that are not over, and those that ended in the last `ended` versions, newest last."""
    pulses = read_pulses(store, state.definition.properties, runtime) if state.instants else None
    live = [_shown(store, state, found, pulses) for found in state.instants if pulses is not None]
    return [*reversed(list(_over(store, state, ended))), *live]


def _shown(store: Store, state: TableState, found: Instant, pulses: Pulses) -> InstantStatus:
    claim, plan = found.claim, found.plan
    beat_ms = None if claim is None else pulses.age_ms(claim.attempt)
    age_ms = plan_age_ms(store, found, pulses) if plan is not None else None
    return InstantStatus(
        id=found.id,
        action=found.action,
        state="requested" if claim is None else "inflight",
        cancellable=None if plan is None else plan.cancellable,
        epoch=found.epoch,
        owner=None if claim is None else claim.owner,
        age_seconds=None if age_ms is None else age_ms / 1000,
        heartbeat_seconds=None if beat_ms is None else beat_ms / 1000,
        files=None if plan is None else plan.files,
        rows=None if plan is None else plan.rows,
        bytes=None if plan is None else plan.bytes,
        progress=None if claim is None else _progress(store, claim.attempt),
        waits_for=_waits_for(state, found, pulses),
        version=found.requested,
    )


def _progress(store: Store, attempt: str) -> str | None:
    try:
        pulse: Pulse | None = read_pulse(store, attempt)
    except NeedlefishError:
        # A torn or foreign object says nothing; that it beats is known already.
        return None
    if pulse is None or not pulse.stage:
        return None
    return f"{pulse.stage} {pulse.done}/{pulse.total}" if pulse.total else pulse.stage


def _waits_for(state: TableState, found: Instant, pulses: Pulses) -> str | None:
    if found.undone_by is not None:
        return f"rollback {found.undone_by}"
    if found.claim is not None and not pulses.is_alive(found.claim.attempt):
        return "a worker to take it over" if found.target is not None else "a clean to roll it back"
    if found.claim is not None:
        return "its worker to stop" if found.cancelled else None
    if found.cancelled or (found.epoch and not found.retries):
        return "a clean to roll it back"
    return "a worker"


def _over(store: Store, state: TableState, versions: int) -> Iterator[InstantStatus]:
    """From the entries that ended them, newest first."""
    if not versions:
        return
    for entry in read_entries(store, max(state.oldest, state.version - versions + 1), state.version):
        step = entry.instant
        if step is not None and step.step in ("completed", "rolled_back"):
            yield InstantStatus(
                id=step.id,
                action=entry.action,
                state=step.step.replace("_", " "),
                epoch=0 if step.claim is None else step.claim.epoch,
                owner=None if step.claim is None else step.claim.owner,
                progress=step.reason,
                version=entry.version,
            )
