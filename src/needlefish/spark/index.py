"""Building a point index as Spark jobs: tasks read the files and put runs, then tasks put the parts that these become."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunRef, TableState
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.build_index import BuildPlan, BuildTask, IndexResult, build_index
from needlefish.services.shares import SHARE_TEXT, joined
from needlefish.spark.errors import our_errors
from needlefish.spark.reachable import check_reachable
from needlefish.store import RetriedStore
from needlefish.table.point.consolidate import (
    RUN_TEXT,
    MergePart,
    MergePartTask,
    merge_part,
    part_rows,
    parts_of,
    replaced,
    runs_of,
    scattered,
)
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
        return consolidate(spark, store, share.runs, runtime)

    return build_index(store, state, index, job, runtime)


def consolidate(spark: SparkSession, store: RetriedStore, runs: Sequence[RunRef], runtime: Runtime = SYSTEM) -> Sequence[RunRef]:
    """One run of each index: a single part is made here, several are made by tasks."""
    parts = [part for some in scattered(runs).values() for part in parts_of(some)]
    if not parts:
        return runs
    merged = [merge_part(store, parts[0], runtime)] if len(parts) == 1 else _by_tasks(spark, store, parts)
    return replaced(store, runs, merged)


def _by_tasks(spark: SparkSession, store: RetriedStore, parts: Sequence[MergePart]) -> list[RunRef]:
    frame = spark.createDataFrame(part_rows(parts)).repartition(len(parts))
    with our_errors():
        found = runs_of(frame.mapInArrow(MergePartTask(store=store.config).__call__, RUN_TEXT).toArrow())
    # Parts of one run follow each other.
    return sorted(found, key=lambda run: (run.kind, run.point.first if run.point is not None else 0))
