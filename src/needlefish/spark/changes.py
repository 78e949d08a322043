"""The jobs of upserts and deletes on Spark: rows to the tasks that write, keys to the files that may hold them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from needlefish.runtime import SYSTEM
from needlefish.spark.columns import named
from needlefish.spark.errors import our_errors
from needlefish.spark.index import consolidate
from needlefish.spark.routing import key_order, routed
from needlefish.store import RetriedStore
from needlefish.table.tag import PARCEL_TEXT, tag_fields
from needlefish.table.task import RESULT_TEXT, Written, collect
from needlefish.table.upsert.compare import MarkTask, ProbeKeysTask
from needlefish.table.upsert.distinct import DistinctTask
from needlefish.table.upsert.marks import MARK_TEXT, Marks, marks_of
from needlefish.table.upsert.plan import DROPPED, POSITION, ChangePlan, ComparePlan
from needlefish.table.upsert.sources import Source, source_rows
from needlefish.table.upsert.write import KeysTask, UpsertTask

# Keys of a task that asks the index: each reads most of its pages, and sends a parcel to most files.
_TASK_KEYS = 250_000
_LEAST_TASKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertJobs:
    """Fills the seam `Jobs` for a frame of rows."""

    frame: DataFrame
    store: RetriedStore

    def write(self, plan: ChangePlan) -> Written:
        with our_errors():
            rows = ranked(self.frame, plan).mapInArrow(UpsertTask(plan=plan).__call__, RESULT_TEXT).toArrow()
            written = collect(rows)
            known, runtime = plan.indexed_keys, SYSTEM.owned(plan.owner)
            runs = consolidate(self.frame.sparkSession, self.store, plan.definition, known, written.runs, runtime)
        return replace(written, runs=tuple(runs))

    def keys(self, plan: ChangePlan) -> Written:
        return _put_keys(self.frame, plan)

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks:
        return compared(self.frame.sparkSession, sources, plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJobs:
    """The same for a frame of keys."""

    frame: DataFrame

    def write(self, plan: ChangePlan) -> Written:
        return _put_keys(self.frame, plan)

    def keys(self, plan: ChangePlan) -> Written:
        return _put_keys(self.frame, plan)

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks:
        return compared(self.frame.sparkSession, sources, plan)


def _put_keys(frame: DataFrame, plan: ChangePlan) -> Written:
    with our_errors():
        return collect(_sorted_keys(frame, plan).mapInArrow(KeysTask(plan=plan).__call__, RESULT_TEXT).toArrow())


def compared(spark: SparkSession, sources: Sequence[Source], plan: ComparePlan) -> Marks:
    """Two tasks: keys go to the files that may hold them, and every such file is read once."""
    with our_errors():
        tasks = min(len(sources), max(_LEAST_TASKS, sum(source.rows for source in sources) // _TASK_KEYS))
        items = spark.createDataFrame(source_rows(sources)).repartition(tasks)
        parcels = items.mapInArrow(ProbeKeysTask(plan=plan).__call__, PARCEL_TEXT)
        by_file = parcels.repartition("file").sortWithinPartitions("file")
        return marks_of(by_file.mapInArrow(MarkTask(plan=plan).__call__, MARK_TEXT).toArrow().to_batches())


def ranked(frame: DataFrame, plan: ChangePlan) -> DataFrame:
    """Every task gets a range of (partition, key), rows of one key in the order in which the last one counts."""
    frame = frame.withColumn(POSITION, sf.monotonically_increasing_id())
    ranks = [*order_columns(plan), named(POSITION).asc()]
    if plan.definition.properties.global_keys:
        # The last row of a key decides its partition, so that it must be known before rows go to their partitions.
        keys = [named(field.name) for field in plan.definition.key_fields]
        schema = StructType([*frame.schema.fields, StructField(DROPPED, LongType())])
        ranked = frame.repartition(*keys).sortWithinPartitions(*keys, *ranks)
        frame = ranked.mapInArrow(DistinctTask(definition=plan.definition).__call__, schema)
    frame, order = routed(frame, plan.definition)
    by = key_order(order)
    return frame.repartitionByRange(*by).sortWithinPartitions(*by, *ranks)


def order_columns(plan: ChangePlan) -> list[Column]:
    field = plan.order_field
    # As when stored rows are compared: no value is older than any value.
    return [] if field is None else [named(field.name).asc_nulls_first()]


def _sorted_keys(frame: DataFrame, plan: ChangePlan) -> DataFrame:
    keys = frame.select(*(named(field.name) for field in tag_fields(plan.definition)))
    order = [field.name for field in plan.definition.key_fields]
    if not plan.definition.properties.global_keys:
        keys, order = routed(keys, plan.definition)
    by = key_order(order)
    return keys.repartitionByRange(*by).sortWithinPartitions(*by)
