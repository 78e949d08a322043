"""Compaction and clustering as Spark jobs.

A compaction deals its groups out to tasks, each of which merges one at a time. A clustering sorts all rows of the plan by range, so
that its chunksets share few values; Spark's sampling for that reads the inputs once more, as an append's does.
"""

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM
from needlefish.services.rewrite import CompactTask, RewritePlan, Target
from needlefish.services.rewrite.cluster import Z_COLUMN, ClusterReadTask, cluster_write_plan, order_fields, z_cuts
from needlefish.services.rewrite.inputs import live_infos
from needlefish.services.shares import item_rows
from needlefish.spark.dealing import dealt
from needlefish.spark.errors import our_errors
from needlefish.spark.index import consolidate
from needlefish.spark.reachable import check_reachable
from needlefish.spark.routing import key_order
from needlefish.spark.types import spark_type
from needlefish.store import RetriedStore
from needlefish.table.partition import PARTITION_COLUMN
from needlefish.table.point.runs import indexed_keys
from needlefish.table.read_task import info_rows
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import RESULT_TEXT, WriteTask, Written, collect

# Tasks that read take about this much each: a few seconds of work.
_READ_BYTES = 64 * 1024 * 1024


def written_on_spark(spark: SparkSession, store: RetriedStore, state: TableState, plan: RewritePlan, owner: str = "") -> Written:
    """Reads the inputs as `state` has them and writes what takes their place; nothing is true of it before `commit_rewrite`.

    `owner` begins the id of every object that the tasks make.
    """
    check_reachable(store)
    job = _compacting if plan.action == "compaction" else _clustering
    with our_errors():
        written = collect(job(spark, store, state, plan, owner).toArrow())
        runs = consolidate(spark, store, state.definition, indexed_keys(state), written.runs, SYSTEM.owned(owner))
    return replace(written, runs=runs)


def _compacting(spark: SparkSession, store: RetriedStore, state: TableState, plan: RewritePlan, owner: str) -> DataFrame:
    target = Target(bytes=plan.target_bytes, rows=plan.target_rows)
    task = CompactTask(state=state, store=store.config, target=target, owner=owner)
    items = item_rows((f"{number:08d}", group) for number, group in enumerate(plan.groups))
    return dealt(spark, items, plan.bytes).mapInArrow(task.__call__, RESULT_TEXT)


def _clustering(spark: SparkSession, store: RetriedStore, state: TableState, plan: RewritePlan, owner: str) -> DataFrame:
    snapshot = Snapshot(store=store, state=state)
    infos = live_infos(snapshot, plan.inputs)
    cuts = z_cuts(snapshot, plan)
    fields = order_fields(state, plan)
    read = ClusterReadTask(state=state, store=store.config, z_fields=fields if cuts else (), cuts=cuts)
    write = WriteTask(plan=cluster_write_plan(state, plan, owner), store=store.config)
    tasks = min(len(infos), plan.bytes // _READ_BYTES + 1)
    rows = spark.createDataFrame(info_rows(infos)).repartition(tasks).mapInArrow(read.__call__, _spark_schema(read.schema))
    by = [Z_COLUMN] if cuts else [field.name for field in fields]
    order = key_order(list(dict.fromkeys([PARTITION_COLUMN, *by, *(key.name for key in state.definition.key_fields)])))
    ranges = rows.repartitionByRange(_chunksets(plan), *order).sortWithinPartitions(*order)
    return ranges.mapInArrow(write.__call__, RESULT_TEXT)


def _chunksets(plan: RewritePlan) -> int:
    """About how many the plan gives: each is a task of its own."""
    visible = plan.rows - plan.hidden
    size = plan.bytes * visible // max(1, plan.rows)
    return max(1, -(-size // plan.target_bytes), -(-visible // plan.target_rows))


def _spark_schema(fields: Iterable[pa.Field]) -> StructType:
    return StructType([StructField(field.name, spark_type(field.type)) for field in fields])
