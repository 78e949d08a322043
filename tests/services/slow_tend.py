"""A loop whose work takes until it is told to end: `python slow_tend.py URI PATIENCE_SECONDS FILE`, for tests that send signals.

Says "writing" when a plan is being written and goes on when FILE exists, looking at the store meanwhile as real work does.
"""

import sys
from pathlib import Path

from needlefish.cli.signals import Signals
from needlefish.cli.tend_text import event_line
from needlefish.config import StoreConfig
from needlefish.format.log_entry import log_path
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.execute import Worker
from needlefish.services.rewrite import RewritePlan, written_here
from needlefish.services.stopping import Interruption, Stop
from needlefish.services.tend import Event, TendedTable, TendOptions, tend
from needlefish.store import RetriedStore, open_store
from needlefish.store.guarded import GuardedStore
from needlefish.table.task import Written


class Printer:
    def tell(self, event: Event) -> None:
        print(event_line(event), flush=True)

    def doing(self, table: str, what: str):
        from contextlib import nullcontext

        return nullcontext()


def slow_worker(store: RetriedStore, go: Path) -> Worker:
    interruption = Interruption()
    guarded = GuardedStore(store, interruption.guard)

    def write(state: TableState, plan: RewritePlan, runtime: Runtime) -> Written:
        written = written_here(guarded, state, plan, runtime)
        print("writing", flush=True)
        while not go.exists():
            guarded.head(log_path(0))
            SYSTEM.clock.sleep(0.05)
        return written

    return Worker(write=write, interrupt=interruption.interrupt)


def main(uri: str, patience: str, go: str) -> None:
    stop = Stop(float(patience))
    store = open_store(StoreConfig(uri=uri))
    table = TendedTable(store, TendOptions(every_seconds=0.2), lambda found: slow_worker(found, Path(go)), Printer(), stop)
    with Signals(stop).handled():
        tend([table], stop, 0.2)


main(*sys.argv[1:])
