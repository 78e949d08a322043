"""Deleting: by keys, which are found as those of an upsert are, or by a condition over the files that may match it."""

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.spark.changes import DeleteJobs
from needlefish.spark.columns import named
from needlefish.spark.errors import our_errors
from needlefish.spark.reachable import check_reachable
from needlefish.spark.types import type_texts
from needlefish.store import RetriedStore
from needlefish.table.conform import check_required
from needlefish.table.read_task import info_rows
from needlefish.table.tag import tag_fields
from needlefish.table.upsert.marks import MARK_TEXT, Marks, marks_of
from needlefish.table.upsert.result import DeleteResult
from needlefish.table.upsert.run import ChangeOptions, delete_rows
from needlefish.table.upsert.where import WhereTask, delete_matching

# Files of one task.
_TASK_FILES = 16
_LEAST_TASKS = 4


def delete_keys(
    frame: DataFrame, state: TableState, store: RetriedStore, options: ChangeOptions, runtime: Runtime = SYSTEM
) -> tuple[TableState, DeleteResult]:
    """Hides the rows of all keys in `frame`, whatever other columns it has."""
    check_reachable(store)
    fields = tag_fields(state.definition)
    names = {field.name for field in fields}
    check_required(fields, type_texts(frame.select(*(named(name) for name in frame.columns if name in names)).schema))
    return delete_rows(store, state, options, DeleteJobs(frame=frame), runtime)


def delete_where(
    spark: SparkSession, state: TableState, store: RetriedStore, where: str, options: ChangeOptions, runtime: Runtime = SYSTEM
) -> tuple[TableState, DeleteResult]:
    """Hides every row that matches a condition."""
    check_reachable(store)

    def job(task: WhereTask, infos: Sequence[ChunksetInfo]) -> Marks:
        tasks = min(len(infos), max(_LEAST_TASKS, len(infos) // _TASK_FILES))
        with our_errors():
            items = spark.createDataFrame(info_rows(infos)).repartition(tasks)
            return marks_of(items.mapInArrow(task.__call__, MARK_TEXT).toArrow().to_batches())

    return delete_matching(store, state, where, options, job, runtime)
