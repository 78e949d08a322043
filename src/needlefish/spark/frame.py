"""A table version as a Spark frame: Spark's own Parquet reader where it can reach the files, our reader elsewhere."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from needlefish.config import StoreConfig
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.schema import Field
from needlefish.spark.columns import named
from needlefish.spark.paths import file_uri
from needlefish.spark.types import schema_to_spark, spark_type
from needlefish.store import local_path
from needlefish.table.file_columns import FileColumns
from needlefish.table.read_task import ReadTask, info_rows
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot

# Tasks of our own reader take about this much each: a few seconds of work.
_TASK_BYTES = 64 * 1024 * 1024
_LEAST_TASKS = 8


def table_frame(spark: SparkSession, snapshot: Snapshot, config: StoreConfig) -> DataFrame:
    """All rows of the snapshot; the frame stays on its version whatever is committed later."""
    infos = list(plan_scan(snapshot, ScanRequest()).chunksets())
    if not infos:
        return spark.createDataFrame([], schema_to_spark(snapshot.state.definition.schema))
    plain = [info for info in infos if local_path(snapshot.store, info.path) is not None and not info.path_columns]
    rest = [info for info in infos if info not in plain] if len(plain) < len(infos) else []
    frames = [_by_spark(spark, snapshot, found) for found in _by_schema(plain)]
    if rest:
        frames.append(_through_our_reader(spark, snapshot, config, rest))
    return reduce(DataFrame.unionAll, frames)


def _by_schema(infos: Sequence[ChunksetInfo]) -> list[list[ChunksetInfo]]:
    """Files of one schema are read together; a table has few schemas."""
    return [[info for info in infos if info.schema_id == number] for number in sorted({info.schema_id for info in infos})]


def _by_spark(spark: SparkSession, snapshot: Snapshot, infos: Sequence[ChunksetInfo]) -> DataFrame:
    """Spark's own Parquet reader under the files' schema, then today's names and types, by field id."""
    columns = FileColumns(definition=snapshot.state.definition, info=infos[0])
    files = [file_uri(str(local_path(snapshot.store, info.path))) for info in infos]
    stored = spark.read.schema(schema_to_spark(columns.schema)).parquet(*files)
    return stored.select(*(_today(columns, field) for field in snapshot.state.definition.schema.fields))


def _today(columns: FileColumns, field: Field) -> Column:
    stored = columns.stored(field)
    kind = spark_type(field.arrow_type)
    if stored is None:
        return sf.lit(None).cast(kind).alias(field.name)
    found = named(stored.name)
    return (found if stored.type == field.type else found.cast(kind)).alias(field.name)


def _through_our_reader(spark: SparkSession, snapshot: Snapshot, config: StoreConfig, infos: Sequence[ChunksetInfo]) -> DataFrame:
    definition = snapshot.state.definition
    tasks = max(sum(info.bytes for info in infos) // _TASK_BYTES + 1, min(len(infos), _LEAST_TASKS))
    listed = spark.createDataFrame(info_rows(infos)).repartition(min(tasks, len(infos)))
    return listed.mapInArrow(ReadTask(definition=definition, store=config).__call__, schema_to_spark(definition.schema))
