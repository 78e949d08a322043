"""Small services that need no plan: rolling back what is dead, merging runs, cancelling a plan."""

from dataclasses import dataclass

from needlefish.errors import ConflictError
from needlefish.model.instant import InstantId
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.dead import dead_instants
from needlefish.services.merge import merge
from needlefish.services.rollback import roll_back
from needlefish.services.schedule import cancel
from needlefish.store import Store
from needlefish.timeline import catch_up


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult:
    """Instants that were undone, by id; `version` is the newest after it."""

    version: int
    rolled_back: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """Runs before and after; as many where nothing was worth merging."""

    version: int
    runs_before: int
    runs: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelResult:
    """Whether the plan is over already, or its worker has yet to notice."""

    plan: str
    version: int
    over: bool


def roll_back_dead(store: Store, state: TableState, runtime: Runtime = SYSTEM) -> tuple[TableState, RollbackResult]:
    """Undoes every dead instant that nobody else is at; `state` is the newest. Without any instant it asks the store nothing."""
    undone = []
    for found in dead_instants(store, state, runtime):
        try:
            state = roll_back(store, state, found.id, runtime, reason="its worker is dead" if found.claim else "nobody executed it in time")
        except ConflictError:
            # It lives after all, or another worker is at it.
            state = catch_up(store, state) or state
            continue
        undone.append(found.target or found.id)
    return state, RollbackResult(version=state.version, rolled_back=tuple(undone))


def merge_runs(store: Store, state: TableState, runtime: Runtime = SYSTEM) -> tuple[TableState, MergeResult]:
    """Merges what is worth merging, of the metadata and of every index; `state` is the newest."""
    started = runtime.clock.monotonic()
    after = merge(store, state, runtime)
    seconds = runtime.clock.monotonic() - started
    return after, MergeResult(version=after.version, runs_before=len(state.runs), runs=len(after.runs), seconds=seconds)


def cancel_plan(
    store: Store, state: TableState, plan_id: str, runtime: Runtime = SYSTEM, *, force: bool = False
) -> tuple[TableState, CancelResult]:
    """From now on the plan cannot commit. If nobody executes it, it is rolled back here; else its worker stops at its next look."""
    instant = InstantId(plan_id)
    state = cancel(store, state, instant, runtime, force=force)
    try:
        state = roll_back(store, state, instant, runtime, reason="cancelled")
    except ConflictError:
        # Its worker is alive.
        state = catch_up(store, state) or state
    return state, CancelResult(plan=plan_id, version=state.version, over=state.instant(instant) is None)
