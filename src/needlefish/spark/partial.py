"""The jobs of an upsert that keeps the columns which a frame lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from needlefish.runtime import SYSTEM
from needlefish.spark.changes import compared, order_columns, ranked
from needlefish.spark.columns import named
from needlefish.spark.errors import our_errors
from needlefish.spark.index import consolidate
from needlefish.store import RetriedStore
from needlefish.table.point.runs import indexed_keys
from needlefish.table.tag import PARCEL_TEXT
from needlefish.table.tag.parcel import PARCEL_SCHEMA, parcel_batches
from needlefish.table.task import RESULT_TEXT, Written, collect
from needlefish.table.upsert.marks import Marks
from needlefish.table.upsert.partial_read import LocateRowsTask, PartialPlan, ReadOldTask
from needlefish.table.upsert.partial_stage import StageTask
from needlefish.table.upsert.partial_write import CompleteTask, head_parcels
from needlefish.table.upsert.plan import POSITION, ChangePlan, ComparePlan
from needlefish.table.upsert.sources import Source, source_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialFrameJobs:
    """Fills the seam `PartialJobs` for a frame of rows."""

    frame: DataFrame
    store: RetriedStore

    def stage(self, plan: ChangePlan, present: tuple[int, ...]) -> Written:
        with our_errors():
            rows = _by_key(self.frame, plan) if plan.definition.properties.global_keys else ranked(self.frame, plan)
            return collect(rows.mapInArrow(StageTask(plan=plan, present=present).__call__, RESULT_TEXT).toArrow())

    def complete(self, sources: Sequence[Source], plan: PartialPlan) -> Written:
        with our_errors():
            written = collect(self._completed(sources, plan).mapInArrow(CompleteTask(plan=plan).__call__, RESULT_TEXT).toArrow())
            known = indexed_keys(plan.compare.state)
            runs = consolidate(self.frame.sparkSession, self.store, plan.definition, known, written.runs, SYSTEM.owned(plan.owner))
        return replace(written, runs=tuple(runs))

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks:
        return compared(self.frame.sparkSession, sources, plan)

    def _completed(self, sources: Sequence[Source], plan: PartialPlan) -> DataFrame:
        """Keys to the stored files, what was read there to the staged files. Hashes deal them out: a range would have Spark
        do all the reading twice, to sample what it gives."""
        spark = self.frame.sparkSession
        items = spark.createDataFrame(source_rows(sources)).repartition(len(sources))
        keys = items.mapInArrow(LocateRowsTask(plan=plan).__call__, PARCEL_TEXT).repartition("file").sortWithinPartitions("file")
        old = keys.mapInArrow(ReadOldTask(plan=plan).__call__, PARCEL_TEXT)
        heads = spark.createDataFrame(pa.Table.from_batches(parcel_batches(head_parcels(sources)), PARCEL_SCHEMA))
        return old.unionAll(heads).repartition("file").sortWithinPartitions("file")


def _by_key(frame: DataFrame, plan: ChangePlan) -> DataFrame:
    """Every task gets a range of keys, whatever their partitions."""
    frame = frame.withColumn(POSITION, sf.monotonically_increasing_id())
    keys = [named(field.name) for field in plan.definition.key_fields]
    return frame.repartitionByRange(*keys).sortWithinPartitions(*keys, *order_columns(plan), named(POSITION).asc())
