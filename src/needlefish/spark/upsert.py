"""Upserting a frame: chunksets of its rows first, then the rows that these hide, then one commit of both.

Keys are read back from what was written. What becomes true is thus one evaluation of the frame, however often Spark asks for it.
"""

from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StructField, StructType

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.log import Batch, TableState
from needlefish.model.schema import Field
from needlefish.runtime import SYSTEM, Runtime
from needlefish.spark.changes import Stages, compared, healing, remove_work, work_folder
from needlefish.spark.columns import named
from needlefish.spark.errors import our_errors
from needlefish.spark.index import consolidate
from needlefish.spark.reachable import check_reachable
from needlefish.spark.routing import key_order, routed
from needlefish.spark.types import type_texts
from needlefish.store import RetriedStore
from needlefish.table.commit import totals_of
from needlefish.table.conform import check_columns
from needlefish.table.point.runs import indexed_keys
from needlefish.table.row_changes import Committed, RowChanges, commit_changes, is_repeated
from needlefish.table.task import RESULT_TEXT, Written, collect
from needlefish.table.upsert.distinct import DistinctTask
from needlefish.table.upsert.marks import Marks
from needlefish.table.upsert.plan import DROPPED, POSITION, ChangePlan, ComparePlan
from needlefish.table.upsert.sources import Source
from needlefish.table.upsert.write import UpsertTask, WriteNote, note_of


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertOptions:
    """How a frame is to be taken. `order_by` is a column of the table, `deleted_by` one of the frame alone."""

    order_by: Field | None = None
    batch: Batch | None = None
    deleted_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertResult:
    """What an upsert did. `version` is the table's after it; a batch that was there already makes no new one.

    `inserted` and `replaced` count rows that are visible now, `late` rows that an older one outranks by `order_by`, and
    `duplicates` rows of the frame whose key came again. `healed` counts rounds of comparing with what others committed meanwhile.
    """

    version: int
    inserted: int = 0
    replaced: int = 0
    late: int = 0
    deleted: int = 0
    duplicates: int = 0
    repeated: bool = False
    files: int = 0
    bytes: int = 0
    requests: int = 0
    healed: int = 0
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)


def upsert_frame(
    frame: DataFrame, state: TableState, store: RetriedStore, options: UpsertOptions, runtime: Runtime = SYSTEM
) -> tuple[TableState, UpsertResult]:
    """Writes every row of `frame` and hides the rows it replaces, as one version."""
    check_reachable(store)
    _check(frame, state.definition, options)
    if is_repeated(state, options.batch):
        return state, UpsertResult(version=state.version, repeated=True)
    change = _Upsert(frame, state, store, options, runtime)
    try:
        return change.run()
    finally:
        remove_work(store, change.plan.work)


def _check(frame: DataFrame, definition: TableDefinition, options: UpsertOptions) -> None:
    types = type_texts(frame.schema)
    if options.deleted_by is not None:
        kind = types.pop(options.deleted_by, None)
        if kind != "boolean":
            found = "is not there" if kind is None else f"is {kind}"
            raise InvalidError(f"deleted_by names column {options.deleted_by!r} of df, which {found}; name a boolean column")
        if options.deleted_by in definition.schema.names:
            raise InvalidError(f"deleted_by names column {options.deleted_by!r}, which the table has too; rename it in df")
    check_columns(types, definition)


class _Upsert:
    """One upsert from frame to commit."""

    def __init__(self, frame: DataFrame, state: TableState, store: RetriedStore, options: UpsertOptions, runtime: Runtime) -> None:
        self._frame = frame
        self._state = state
        self._store = store
        self._options = options
        self._runtime = runtime
        self._stages = Stages(runtime)
        order = options.order_by
        self.plan = ChangePlan(
            definition=state.definition,
            store=store.config,
            version=state.version,
            work=work_folder(runtime),
            order_by=None if order is None else order.id,
            deleted_by=options.deleted_by,
            indexed_keys=indexed_keys(state),
        )

    def run(self) -> tuple[TableState, UpsertResult]:
        started, before = self._runtime.clock.monotonic(), self._store.meter.snapshot()
        spark = self._frame.sparkSession
        with self._stages.timed("write"):
            written, notes = self._written()
        sources = _sources(written, notes)
        compare = ComparePlan(state=self._state, store=self._store.config, order_by=self.plan.order_by)
        with self._stages.timed("compare"):
            marks = compared(spark, self._store, sources, compare)
        heal = healing(spark, self._store, self._state, sources, compare)
        changes = RowChanges(action="upsert", written=written, skips=marks.skips, batch=self._options.batch)
        with self._stages.timed("commit"):
            done = commit_changes(self._store, self._state, changes, heal=heal, runtime=self._runtime)
        requests = (self._store.meter.snapshot() - before).requests + marks.requests + sum(note.requests for note in notes)
        result = _result(written, notes, marks.plus(heal.marks), done)
        seconds = self._runtime.clock.monotonic() - started
        return done.state, replace(result, requests=requests, healed=heal.rounds, seconds=seconds, stages=self._stages.seconds)

    def _written(self) -> tuple[Written, list[WriteNote]]:
        with our_errors():
            rows = _sorted(self._frame, self.plan).mapInArrow(UpsertTask(plan=self.plan).__call__, RESULT_TEXT).toArrow()
            written = collect(rows)
            runs = tuple(consolidate(self._frame.sparkSession, self._store, written.runs, self._runtime))
        return replace(written, runs=runs), [note_of(note) for note in written.notes]


def _sources(written: Written, notes: list[WriteNote]) -> list[Source]:
    deleted = [Source(deleted=file) for note in notes for file in note.key_files]
    return [*(Source(written=entry.info) for entry in written.entries), *deleted]


def _result(written: Written, notes: list[WriteNote], marks: Marks, done: Committed) -> UpsertResult:
    totals, counts = totals_of([entry.info for entry in written.entries]), marks.counted(done.newly)
    return UpsertResult(
        version=done.state.version,
        inserted=0 if done.repeated else totals.rows - counts.late - counts.replaced,
        replaced=counts.replaced,
        late=counts.late,
        deleted=counts.deleted,
        duplicates=sum(note.duplicates for note in notes),
        repeated=done.repeated,
        files=totals.files,
        bytes=totals.bytes,
    )


def _sorted(frame: DataFrame, plan: ChangePlan) -> DataFrame:
    """Every task gets a range of (partition, key), rows of one key in the order in which the last one counts."""
    frame = frame.withColumn(POSITION, sf.monotonically_increasing_id())
    ranks = [*_order(plan), named(POSITION).asc()]
    if plan.definition.properties.global_keys:
        # The last row of a key decides its partition, so that it must be known before rows go to their partitions.
        keys = [named(found.name) for found in plan.definition.key_fields]
        ranked = frame.repartition(*keys).sortWithinPartitions(*keys, *ranks)
        schema = StructType([*frame.schema.fields, StructField(DROPPED, LongType())])
        frame = ranked.mapInArrow(DistinctTask(definition=plan.definition).__call__, schema)
    frame, order = routed(frame, plan.definition)
    by = key_order(order)
    return frame.repartitionByRange(*by).sortWithinPartitions(*by, *ranks)


def _order(plan: ChangePlan) -> list[Column]:
    field = plan.order_field
    # As when stored rows are compared: no value is older than any value.
    return [] if field is None else [named(field.name).asc_nulls_first()]
