"""Table services without Spark, and what tests want to know of the timeline they leave."""

from collections.abc import Iterable

from needlefish.format.log_entry import CHECKPOINT_PREFIX, LOG_PREFIX, plan_path
from needlefish.format.run import path_of
from needlefish.model.instant import Instant, InstantId
from needlefish.model.log import LogEntry, TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.execute import ServiceResult, Worker, execute
from needlefish.services.rewrite import CompactionPolicy, plan_compaction, written_here
from needlefish.services.schedule import schedule
from needlefish.store import RetriedStore, Store
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.timeline.replay import read_entries, read_state_at

# Takes whatever has a hidden row or a neighbour to be merged with.
EAGER = CompactionPolicy(hidden_share=0.01, least_files=2)


def local_worker(store: RetriedStore) -> Worker:
    """Writes in this process."""
    return Worker(write=lambda state, plan, runtime: written_here(store, state, plan, runtime))


def schedule_compaction(
    store: RetriedStore, state: TableState, *, cancellable: bool = True, runtime: Runtime = SYSTEM
) -> tuple[TableState, Instant]:
    """A plan over all that can be compacted."""
    plan = plan_compaction(Snapshot(store=store, state=state), EAGER)
    assert plan is not None, "nothing to compact"
    return schedule(store, state, plan, runtime, cancellable=cancellable)


def execute_here(store: RetriedStore, state: TableState, instant: str, runtime: Runtime = SYSTEM) -> tuple[TableState, ServiceResult]:
    return execute(store, state, InstantId(instant), local_worker(store), runtime)


def entries_of(store: Store, state: TableState) -> list[LogEntry]:
    """The log up to `state`, oldest first."""
    return list(read_entries(store, state.oldest, state.version))[::-1]


def completions(store: Store, state: TableState, instant: str) -> list[int]:
    """The versions that say that an instant is completed: never more than one."""
    steps = ((entry.version, entry.instant) for entry in entries_of(store, state) if entry.instant is not None)
    return [version for version, step in steps if step.id == instant and step.step == "completed"]


def needed_objects(store: Store, state: TableState, versions: Iterable[int] | None = None) -> set[str]:
    """What the readable versions consist of, and the plans that wait."""
    needed = {plan_path(found.id) for found in state.instants if found.plan is not None}
    for version in range(state.oldest, state.version + 1) if versions is None else versions:
        at = read_state_at(store, version, state)
        needed |= {path_of(run) for run in at.runs}
        needed |= {info.path for info in plan_scan(Snapshot(store=store, state=at), ScanRequest()).chunksets()}
    return needed


def orphans(store: Store, state: TableState) -> set[str]:
    """Objects that nobody needs: no readable version, no plan, no log."""
    there = {found.path for found in store.list() if not found.path.startswith((LOG_PREFIX, CHECKPOINT_PREFIX))}
    return there - needed_objects(store, state)
