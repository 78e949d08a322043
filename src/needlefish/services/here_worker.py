"""Who executes plans without Spark: this process, which can be told to stop at its next store operation."""

from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.services.execute import Worker
from needlefish.services.rewrite import RewritePlan, written_here
from needlefish.services.stopping import Interruption
from needlefish.store import RetriedStore
from needlefish.store.guarded import GuardedStore
from needlefish.table.task import Written


def here_worker(store: RetriedStore) -> Worker:
    """For one plan."""
    interruption = Interruption()

    def write(state: TableState, plan: RewritePlan, runtime: Runtime) -> Written:
        return written_here(GuardedStore(store, interruption.guard), state, plan, runtime)

    return Worker(write=write, interrupt=interruption.interrupt)
