"""Files dealt out to tasks."""

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

# Each task puts runs of its own, so that tasks are few: a minute of work or two rather than seconds.
_TASK_BYTES = 512 * 1024 * 1024
_LEAST_TASKS = 4


def dealt(spark: SparkSession, items: pa.Table, total_bytes: int) -> DataFrame:
    """Items in as many tasks as their files are worth, each a range of keys."""
    tasks = min(items.num_rows, max(_LEAST_TASKS, total_bytes // _TASK_BYTES))
    return spark.createDataFrame(items).repartitionByRange(tasks, "key")
