"""Erasing by keys: the jobs of a delete look for them, again and again, and those of compactions write files without their rows."""

from pyspark.sql import DataFrame

from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.erase import EraseOptions, ErasureReport, erase_rows
from needlefish.spark.changes import DeleteJobs
from needlefish.spark.columns import named
from needlefish.spark.reachable import check_reachable
from needlefish.spark.services import spark_worker
from needlefish.spark.types import type_texts
from needlefish.store import RetriedStore
from needlefish.table.conform import check_required
from needlefish.table.tag import tag_fields


def erase_keys(
    frame: DataFrame, state: TableState, store: RetriedStore, options: EraseOptions, runtime: Runtime = SYSTEM
) -> tuple[TableState, ErasureReport]:
    """Erases the rows of all keys in `frame`, whatever other columns it has."""
    check_reachable(store)
    fields = tag_fields(state.definition)
    names = {field.name for field in fields}
    keys = frame.select(*(named(name) for name in frame.columns if name in names))
    check_required(fields, type_texts(keys.schema))
    # The keys are asked for three times, and must be the same each time.
    kept = keys.persist()
    try:
        return erase_rows(store, state, DeleteJobs(frame=kept), lambda: spark_worker(frame.sparkSession, store), options, runtime)
    finally:
        kept.unpersist()
