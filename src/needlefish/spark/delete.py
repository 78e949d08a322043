"""Deleting: by keys, which are found as those of an upsert are, or by a condition over the files that may match it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import Batch, TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.spark.changes import Stages, compared, healing, remove_work, work_folder
from needlefish.spark.columns import named
from needlefish.spark.errors import our_errors
from needlefish.spark.reachable import check_reachable
from needlefish.spark.routing import key_order, routed
from needlefish.spark.types import type_texts
from needlefish.store import RetriedStore
from needlefish.table.conform import check_required
from needlefish.table.predicate import Predicate
from needlefish.table.read_task import info_rows
from needlefish.table.row_changes import Committed, RowChanges, commit_changes, is_repeated
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag import tag_fields
from needlefish.table.task import RESULT_TEXT, collect
from needlefish.table.upsert.healing import Healing
from needlefish.table.upsert.marks import MARK_TEXT, Marks, marks_of
from needlefish.table.upsert.plan import ChangePlan, ComparePlan
from needlefish.table.upsert.sources import Source
from needlefish.table.upsert.where import WhereTask, matching_here
from needlefish.table.upsert.write import KeysTask, WriteNote, note_of

# Up to so many files of others' commits are looked through in this process: starting a job would take longer.
_FEW_FILES = 4
# Files of one task.
_TASK_FILES = 16
_LEAST_TASKS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteResult:
    """What a delete did. `absent` counts keys that had no row; `version` is the table's after it."""

    version: int
    deleted: int = 0
    absent: int = 0
    duplicates: int = 0
    repeated: bool = False
    requests: int = 0
    healed: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)


def delete_keys(
    frame: DataFrame, state: TableState, store: RetriedStore, batch: Batch | None = None, runtime: Runtime = SYSTEM
) -> tuple[TableState, DeleteResult]:
    """Hides the rows of all keys in `frame`. No data file is written."""
    check_reachable(store)
    fields = tag_fields(state.definition)
    types = type_texts(frame.select(*(named(name) for name in frame.columns if name in {field.name for field in fields})).schema)
    check_required(fields, types)
    if is_repeated(state, batch):
        return state, DeleteResult(version=state.version, repeated=True)
    plan = ChangePlan(definition=state.definition, store=store.config, version=state.version, work=work_folder(runtime))
    try:
        return _delete_keys(frame, state, store, plan, batch, runtime)
    finally:
        remove_work(store, plan.work)


def _delete_keys(
    frame: DataFrame, state: TableState, store: RetriedStore, plan: ChangePlan, batch: Batch | None, runtime: Runtime
) -> tuple[TableState, DeleteResult]:
    started, before, stages = runtime.clock.monotonic(), store.meter.snapshot(), Stages(runtime)
    spark = frame.sparkSession
    with stages.timed("keys"):
        notes = _put_keys(frame, plan)
    sources = [Source(deleted=file) for note in notes for file in note.key_files]
    compare = ComparePlan(state=state, store=store.config)
    with stages.timed("compare"):
        marks = compared(spark, store, sources, compare)
    heal = healing(spark, store, state, sources, compare)
    with stages.timed("commit"):
        done = commit_changes(store, state, RowChanges(action="delete", skips=marks.skips, batch=batch), heal=heal, runtime=runtime)
    found = marks.plus(heal.marks)
    keys = sum(note.deletes for note in notes)
    requests = (store.meter.snapshot() - before).requests + found.requests + sum(note.requests for note in notes)
    result = DeleteResult(
        version=done.state.version,
        deleted=done.skipped,
        absent=0 if done.repeated else max(0, keys - done.skipped),
        duplicates=sum(note.duplicates for note in notes),
        repeated=done.repeated,
    )
    seconds = runtime.clock.monotonic() - started
    return done.state, replace(result, requests=requests, healed=heal.rounds, seconds=seconds, stages=stages.seconds)


def _put_keys(frame: DataFrame, plan: ChangePlan) -> list[WriteNote]:
    keys = frame.select(*(named(field.name) for field in tag_fields(plan.definition)))
    if plan.definition.properties.global_keys:
        order = [field.name for field in plan.definition.key_fields]
    else:
        keys, order = routed(keys, plan.definition)
    by = key_order(order)
    with our_errors():
        rows = keys.repartitionByRange(*by).sortWithinPartitions(*by).mapInArrow(KeysTask(plan=plan).__call__, RESULT_TEXT).toArrow()
    return [note_of(note) for note in collect(rows).notes]


def delete_where(
    spark: SparkSession, state: TableState, store: RetriedStore, where: str, batch: Batch | None = None, runtime: Runtime = SYSTEM
) -> tuple[TableState, DeleteResult]:
    """Hides every row that matches a condition."""
    check_reachable(store)
    started, before, stages = runtime.clock.monotonic(), store.meter.snapshot(), Stages(runtime)
    scan = plan_scan(Snapshot(store=store, state=state), ScanRequest(where=where))
    if is_repeated(state, batch):
        return state, DeleteResult(version=state.version, repeated=True)

    def matching(within: TableState) -> Marks:
        snapshot = Snapshot(store=store, state=within)
        return _matching(spark, store, within, list(plan_scan(snapshot, ScanRequest(where=where)).chunksets()), scan.predicate)

    with stages.timed("compare"):
        marks = matching(state)
    # Whether a new chunkset can match is for the comparison to say: it knows statistics, and this does not.
    heal = Healing(store, state, lambda info: True, matching)
    with stages.timed("commit"):
        changes = RowChanges(action="delete", skips=marks.skips, batch=batch)
        done: Committed = commit_changes(store, state, changes, heal=heal, runtime=runtime)
    requests = (store.meter.snapshot() - before).requests + marks.plus(heal.marks).requests
    seconds = runtime.clock.monotonic() - started
    result = DeleteResult(version=done.state.version, deleted=done.skipped, repeated=done.repeated, requests=requests)
    return done.state, replace(result, healed=heal.rounds, seconds=seconds, stages=stages.seconds)


def _matching(spark: SparkSession, store: RetriedStore, state: TableState, infos: Sequence[ChunksetInfo], predicate: Predicate) -> Marks:
    plan = ComparePlan(state=state, store=store.config)
    if len(infos) <= _FEW_FILES:
        return matching_here(store, plan, predicate, infos)
    tasks = min(len(infos), max(_LEAST_TASKS, len(infos) // _TASK_FILES))
    with our_errors():
        items = spark.createDataFrame(info_rows(infos)).repartition(tasks)
        return marks_of(items.mapInArrow(WhereTask(plan=plan, predicate=predicate).__call__, MARK_TEXT).toArrow().to_batches())
