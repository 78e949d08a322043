"""Compacting away: files that hold rows of erased keys become files without them, as plans that yield to writers."""

from collections.abc import Callable, Collection

from needlefish.errors import ConflictError, FencedError
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.services.dead import dead_instants
from needlefish.services.execute import Worker, execute
from needlefish.services.rewrite import plan_compaction
from needlefish.services.rollback import roll_back
from needlefish.services.schedule import cancel, schedule
from needlefish.store import RetriedStore
from needlefish.table.planned import planned_files
from needlefish.table.snapshot import Snapshot
from needlefish.timeline import catch_up

# Writers and other services come first; each gets out of the way sooner or later.
_MOST_CONFLICTS = 8
_PAUSE_SECONDS = 0.5

# Makes whoever executes one plan.
Workers = Callable[[], Worker]


def compact_away(store: RetriedStore, state: TableState, files: Collection[str], workers: Workers, runtime: Runtime) -> TableState:
    """Rewrites files by their keys until none of them is live; those that another service has rewritten meanwhile are done."""
    conflicts = 0
    while (plan := plan_compaction(Snapshot(store=store, state=state), files=files) if files else None) is not None:
        try:
            state, instant = schedule(store, state, plan, runtime)
            state, _ = execute(store, state, instant.id, workers(), runtime)
        except (ConflictError, FencedError):
            conflicts += 1
            if conflicts > _MOST_CONFLICTS:
                raise
            state = _made_way(store, catch_up(store, state) or state, files, runtime)
            if conflicts > 1:
                runtime.clock.sleep(runtime.jitter(_PAUSE_SECONDS * conflicts))
    return state


def _made_way(store: RetriedStore, state: TableState, files: Collection[str], runtime: Runtime) -> TableState:
    """Plans over these files that nobody executes, or whose worker is dead, are rolled back: they may be cancelled by anybody."""
    readers = {plan for key, plan in planned_files(store, state, cancellable=True).items() if key in files}
    for found in state.instants:
        if found.id in readers and found.plan is not None and found.plan.cancellable and found.claim is None:
            state = cancel(store, state, found.id, runtime)
    for dead in dead_instants(store, state, runtime):
        if dead.id in readers or dead.target in readers:
            state = roll_back(store, state, dead.id, runtime, reason="in the way of an erasure")
    return state
