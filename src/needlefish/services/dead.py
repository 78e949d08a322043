"""Which instants are dead: nobody beats for them, and they are inflight or have waited too long.

Judged in the store's time. A wrong judgement costs work, never truth: the log refuses the commit of whoever was taken for dead.
"""

from needlefish.errors import NotFoundError
from needlefish.format.log_entry import plan_path
from needlefish.model.instant import Instant
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.store import Store
from needlefish.timeline import catch_up
from needlefish.timeline.heartbeat import Pulses, read_pulses


def dead_instants(store: Store, state: TableState, runtime: Runtime) -> list[Instant]:
    """Those that a clean rolls back, and rollbacks that nobody executes any more."""
    if not state.instants:
        return []
    pulses = read_pulses(store, state.definition.properties, runtime)
    dead = [found for found in state.instants if is_dead(store, state, found, pulses)]
    if not dead:
        return []
    # Work ends in the log before its heart stops: what seems dead may merely be over by now.
    newest = catch_up(store, state) or state
    return [found for found in dead if newest.instant(found.id) == found]


def is_dead(store: Store, state: TableState, instant: Instant, pulses: Pulses) -> bool:
    if instant.undone_by is not None:
        # Whoever rolls it back is the one that may be dead.
        return False
    if instant.claim is not None:
        return not pulses.is_alive(instant.claim.attempt)
    if instant.cancelled:
        return True
    if instant.retries:
        # An immutable plan waits until it is executed, however long.
        return False
    age_ms = plan_age_ms(store, instant, pulses)
    return age_ms is None or age_ms >= state.definition.properties.table_service_rollback_delay * 1000


def plan_age_ms(store: Store, instant: Instant, pulses: Pulses) -> int | None:
    """How long ago a plan was put; None if its object is gone, without which nobody can execute it."""
    try:
        return max(0, pulses.now_ms - store.head(plan_path(instant.id)).modified_ms)
    except NotFoundError:
        return None
