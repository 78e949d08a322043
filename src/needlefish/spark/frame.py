"""A table version as a Spark frame: Spark's own Parquet reader where it can reach the files, our reader elsewhere.

Rows that are hidden are left out by a join with bits that every task gets, which costs far less than sending rows
through Python (decision 0601). The bits are bounded; files beyond that go through our reader.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from needlefish.config import StoreConfig
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.schema import RESERVED, Field
from needlefish.spark.columns import named
from needlefish.spark.paths import file_uri
from needlefish.spark.types import schema_to_spark, spark_type
from needlefish.store import local_path
from needlefish.table.file_columns import FileColumns
from needlefish.table.hidden_blocks import BLOCK_BITS, BLOCK_ROWS, BLOCK_SCHEMA, hidden_blocks
from needlefish.table.read_task import ReadTask, info_rows
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot

# Tasks of our own reader take about this much each: a few seconds of work.
_TASK_BYTES = 64 * 1024 * 1024
_LEAST_TASKS = 8
# Bits of hidden rows that pass through the driver: those of some 200 million rows.
_MOST_BITS_BYTES = 32 * 1024 * 1024

# Names that Spark shows as they are; others it escapes in ways of its own.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._=-]+")
_METADATA = "_metadata"
_FILE, _ROW = f"{RESERVED}_file", f"{RESERVED}_row"


@dataclass(slots=True, kw_only=True)
class _Parts:
    """The chunksets of a version by how they are read."""

    plain: list[ChunksetInfo] = field(default_factory=list)
    # Read by Spark as well, and joined with `blocks`.
    partly_hidden: list[ChunksetInfo] = field(default_factory=list)
    blocks: list[pa.RecordBatch] = field(default_factory=list)
    bits_bytes: int = 0
    rest: list[ChunksetInfo] = field(default_factory=list)


def table_frame(spark: SparkSession, snapshot: Snapshot, config: StoreConfig) -> DataFrame:
    """All visible rows of the snapshot; the frame stays on its version whatever is committed later."""
    parts = _parts(snapshot)
    frames = [_by_spark(spark, snapshot, found, None) for found in _by_schema(parts.plain)]
    if parts.partly_hidden:
        blocks = _blocks_frame(spark, parts.blocks)
        frames += [_by_spark(spark, snapshot, found, blocks) for found in _by_schema(parts.partly_hidden)]
    if parts.rest:
        frames.append(_through_our_reader(spark, snapshot, config, parts.rest))
    return reduce(DataFrame.unionAll, frames) if frames else spark.createDataFrame([], schema_to_spark(snapshot.state.definition.schema))


def _parts(snapshot: Snapshot) -> _Parts:
    parts = _Parts()
    names = _telling_names(plan_scan(snapshot, ScanRequest()).chunksets()) if snapshot.state.runs_of("skips") else set()
    for info, hidden in plan_scan(snapshot, ScanRequest()).visible_chunksets():
        if local_path(snapshot.store, info.path) is None or info.path_columns:
            parts.rest.append(info)
        elif hidden is None:
            parts.plain.append(info)
        elif _base_name(info) in names and not _has_metadata_column(snapshot, info) and parts.bits_bytes < _MOST_BITS_BYTES:
            parts.partly_hidden.append(info)
            parts.blocks.append(hidden_blocks(_base_name(info), hidden))
            parts.bits_bytes += parts.blocks[-1].nbytes
        else:
            parts.rest.append(info)
    return parts


def _telling_names(infos: Iterable[ChunksetInfo]) -> set[str]:
    """The file names that stand for one file each. Adopted files may share theirs, in folders of their own."""
    counts = Counter(map(_base_name, infos))
    return {name for name, count in counts.items() if count == 1 and _PLAIN_NAME.fullmatch(name)}


def _base_name(info: ChunksetInfo) -> str:
    return info.path.rsplit("/", 1)[-1]


def _has_metadata_column(snapshot: Snapshot, info: ChunksetInfo) -> bool:
    """A column of this name hides the one in which Spark says where a row is."""
    columns = FileColumns(definition=snapshot.state.definition, info=info)
    return any(found.name.lower() == _METADATA for found in columns.schema.fields)


def _by_schema(infos: Sequence[ChunksetInfo]) -> list[list[ChunksetInfo]]:
    """Files of one schema are read together; a table has few schemas."""
    return [[info for info in infos if info.schema_id == number] for number in sorted({info.schema_id for info in infos})]


def _by_spark(spark: SparkSession, snapshot: Snapshot, infos: Sequence[ChunksetInfo], blocks: DataFrame | None) -> DataFrame:
    """Spark's own Parquet reader under the files' schema, then today's names and types, by field id."""
    columns = FileColumns(definition=snapshot.state.definition, info=infos[0])
    files = [file_uri(str(local_path(snapshot.store, info.path))) for info in infos]
    stored = spark.read.schema(schema_to_spark(columns.schema)).parquet(*files)
    today = [_today(columns, field) for field in snapshot.state.definition.schema.fields]
    if blocks is None:
        return stored.select(*today)
    places = (sf.col(f"{_METADATA}.file_name").alias(_FILE), sf.col(f"{_METADATA}.row_index").alias(_ROW))
    left = _without_hidden(stored.select(*today, *places), blocks)
    return left.drop(_FILE, _ROW)


def _blocks_frame(spark: SparkSession, blocks: Sequence[pa.RecordBatch]) -> DataFrame:
    listed = spark.createDataFrame(pa.Table.from_batches(blocks, BLOCK_SCHEMA))
    return sf.broadcast(listed.select(sf.xxhash64("file", "block").alias("hash"), "*"))


def _without_hidden(rows: DataFrame, blocks: DataFrame) -> DataFrame:
    """One whole number is the fastest thing to join by. Different blocks may share it, so that the rest is compared too:
    last, since few rows are hidden, and in words which Spark does not take for further columns to join by."""
    block = sf.shiftright(_ROW, BLOCK_BITS)
    bit = sf.col(_ROW).bitwiseAND(BLOCK_ROWS - 1).cast("int")
    is_hidden = sf.bit_get(sf.get("words", sf.shiftright(bit, 6)), bit.bitwiseAND(63)) == 1
    is_same = (block - sf.col("block") == 0) & sf.startswith(sf.col(_FILE), sf.col("file"))
    return rows.join(blocks, (sf.xxhash64(_FILE, block) == sf.col("hash")) & is_hidden & is_same, "left_anti")


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
    return listed.mapInArrow(ReadTask(state=snapshot.state, store=config).__call__, schema_to_spark(definition.schema))
