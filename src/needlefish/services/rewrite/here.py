"""A rewrite without Spark: the same tasks, one after the other in this process."""

import pyarrow as pa

from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.rewrite.cluster import cluster_write_plan, clustered
from needlefish.services.rewrite.commit import Complete, as_it_is, commit_rewrite
from needlefish.services.rewrite.compact import compact_groups
from needlefish.services.rewrite.plan import RewritePlan, Target
from needlefish.store import Store
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import RESULT_SCHEMA, Written, answered, collect, hand_back
from needlefish.timeline import Work


def written_here(store: Store, state: TableState, plan: RewritePlan, runtime: Runtime = SYSTEM) -> Written:
    """Reads the inputs as `state` has them and writes what takes their place; nothing is true of it yet."""
    snapshot = Snapshot(store=store, state=state)
    if plan.action == "compaction":
        rows = compact_groups(snapshot, plan.groups, Target(bytes=plan.target_bytes, rows=plan.target_rows), runtime)
    else:
        rows = answered(hand_back(clustered(snapshot, plan, runtime), cluster_write_plan(state, plan), store, runtime))
    return collect(pa.Table.from_batches(rows, schema=RESULT_SCHEMA))


def rewrite_here(
    store: Store,
    state: TableState,
    plan: RewritePlan,
    runtime: Runtime = SYSTEM,
    *,
    complete: Complete = as_it_is,
    work: Work | None = None,
) -> TableState:
    """Writes and commits. `state` is the version that is read: the plan's own, or a later one with all its inputs."""
    written = written_here(store, state, plan, runtime)
    return commit_rewrite(store, state, plan, written, complete=complete, runtime=runtime, work=work)
