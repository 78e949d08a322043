"""Building a point index as Spark jobs: tasks read the files and put runs, then tasks put the parts that these become."""

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.log import RunRef, TableState
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.build_index import BuildPlan, BuildTask, IndexResult, build_index
from needlefish.services.shares import SHARE_TEXT, joined
from needlefish.spark.errors import our_errors
from needlefish.spark.reachable import check_reachable
from needlefish.store import RetriedStore
from needlefish.table.point.consolidate import RUN_TEXT, MergePart, MergePartTask, consolidate_here, part_rows, plan_consolidation, runs_of
from needlefish.table.read_task import info_rows

# Rows for each task: some seconds of reading, and runs that fit a task's memory.
_TASK_ROWS = 8_000_000
_LEAST_TASKS = 4


def index_table(
    spark: SparkSession, state: TableState, store: RetriedStore, index: PointIndexDefinition, runtime: Runtime = SYSTEM
) -> tuple[TableState, IndexResult]:
    """Adds the index to the table, or makes it anew."""
    check_reachable(store)

    def job(plan: BuildPlan, infos: Sequence[ChunksetInfo]) -> Sequence[RunRef]:
        tasks = min(len(infos), max(_LEAST_TASKS, sum(info.rows for info in infos) // _TASK_ROWS))
        frame = spark.createDataFrame(info_rows(infos)).repartition(tasks)
        with our_errors():
            share = joined(frame.mapInArrow(BuildTask(plan=plan, store=store.config).__call__, SHARE_TEXT).toArrow())
        return consolidate(spark, store, plan.only, plan.keys_before(infos), share.runs, runtime.owned(plan.owner))

    return build_index(store, state, index, job, runtime)


def consolidate(
    spark: SparkSession,
    store: RetriedStore,
    definition: TableDefinition,
    keys_before: Mapping[str, int],
    runs: Sequence[RunRef],
    runtime: Runtime = SYSTEM,
) -> tuple[RunRef, ...]:
    """One run of each index: a single part is made here, several are made by tasks."""
    plan = plan_consolidation(definition, keys_before, runs)
    if len(plan.parts) <= 1:
        return consolidate_here(store, plan, runtime)
    return plan.finished(store, _by_tasks(spark, store, plan.parts, runtime.owner))


def _by_tasks(spark: SparkSession, store: RetriedStore, parts: Sequence[MergePart], owner: str) -> list[RunRef]:
    frame = spark.createDataFrame(part_rows(parts)).repartition(len(parts))
    with our_errors():
        found = runs_of(frame.mapInArrow(MergePartTask(store=store.config, owner=owner).__call__, RUN_TEXT).toArrow())
    # Parts of one run follow each other.
    return sorted(found, key=lambda run: (run.kind, run.point.first if run.point is not None else 0))
