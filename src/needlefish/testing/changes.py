"""Upserts and deletes without Spark: the same tasks, one after the other in this process.

`upsert_table(store, state, [{"id": "a", "n": 2}], order_by="n")` gives the state after it and the result.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.log import Batch, TableState
from needlefish.model.schema import Field
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import RetriedStore
from needlefish.table.partition import PARTITION_COLUMN, computed_columns, partition_paths
from needlefish.table.tag import tag_fields
from needlefish.table.task import RESULT_SCHEMA, Written, collect
from needlefish.table.upsert.compare import compare_here
from needlefish.table.upsert.distinct import DistinctTask
from needlefish.table.upsert.marks import Marks, marks_of
from needlefish.table.upsert.partial import check_present, complete_here, upsert_present
from needlefish.table.upsert.partial_read import PartialPlan
from needlefish.table.upsert.partial_stage import StageTask
from needlefish.table.upsert.plan import POSITION, ChangePlan, ComparePlan
from needlefish.table.upsert.result import DeleteResult, UpsertResult
from needlefish.table.upsert.run import ChangeOptions, delete_rows, upsert_rows
from needlefish.table.upsert.sources import Source
from needlefish.table.upsert.where import WhereTask, delete_matching
from needlefish.table.upsert.write import KeysTask, UpsertTask
from needlefish.testing.tables import Rows

_BATCH_ROWS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJobs:
    """Fills the seam `Jobs`. `rows` are as a frame would have them, keys alone for a delete."""

    rows: pa.Table
    store: RetriedStore
    deletes: bool = False

    def write(self, plan: ChangePlan) -> Written:
        task = KeysTask(plan=plan) if self.deletes else UpsertTask(plan=plan)
        return collect(pa.Table.from_batches(task.within(self.store.apart(), _sorted(self.rows, plan, self.deletes)), schema=RESULT_SCHEMA))

    def keys(self, plan: ChangePlan) -> Written:
        rows = _sorted(self.rows, plan, deletes=True)
        return collect(pa.Table.from_batches(KeysTask(plan=plan).within(self.store.apart(), rows), schema=RESULT_SCHEMA))

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks:
        return compare_here(self.store, sources, plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPartialJobs:
    """Fills the seam `PartialJobs` for rows that lack columns."""

    rows: pa.Table
    store: RetriedStore

    def stage(self, plan: ChangePlan, present: tuple[int, ...]) -> Written:
        task = StageTask(plan=plan, present=present)
        rows = _by_key(self.rows, plan) if plan.definition.properties.global_keys else _sorted(self.rows, plan, deletes=False)
        return collect(pa.Table.from_batches(task.within(self.store.apart(), rows), schema=RESULT_SCHEMA))

    def complete(self, sources: Sequence[Source], plan: PartialPlan) -> Written:
        return complete_here(self.store, sources, plan)

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks:
        return compare_here(self.store, sources, plan)


def _by_key(rows: pa.Table, plan: ChangePlan) -> Iterator[pa.RecordBatch]:
    """The same for rows that may lack what decides their partition."""
    rows = rows.append_column(POSITION, pa.array(range(rows.num_rows), pa.int64()))
    ranks = [*([plan.order_field.name] if plan.order_field is not None else []), POSITION]
    yield from _ordered(rows, [*(field.name for field in plan.definition.key_fields), *ranks]).to_batches(_BATCH_ROWS)


def _sorted(rows: pa.Table, plan: ChangePlan, deletes: bool) -> Iterator[pa.RecordBatch]:
    """Rows as the pipeline delivers them: routed, in the order in which the last row of a key counts."""
    if not rows.num_rows:
        return
    rows = rows.append_column(POSITION, pa.array(range(rows.num_rows), pa.int64()))
    names = [field.name for field in plan.definition.key_fields]
    ranks = [*([plan.order_field.name] if plan.order_field is not None else []), POSITION]
    if plan.definition.properties.global_keys and not deletes:
        ordered = _ordered(rows, [*names, *ranks])
        rows = pa.Table.from_batches(DistinctTask(definition=plan.definition)(ordered.to_batches())).combine_chunks()
    paths = partition_paths(rows.combine_chunks().to_batches()[0], computed_columns(plan.definition))
    yield from _ordered(rows.append_column(PARTITION_COLUMN, paths), [PARTITION_COLUMN, *names, *ranks]).to_batches(_BATCH_ROWS)


def _ordered(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Nulls come first and NaN last, as Spark sorts; Arrow would put both at the same end."""
    columns = {str(number): rows[name] for number, name in enumerate(names)}
    ranks = {f"{number} rank": _rank(column) for number, column in columns.items()}
    order = [(name, "ascending", "at_start") for number in columns for name in (f"{number} rank", number)]
    return rows.take(pc.sort_indices(pa.table(columns | ranks), order)).combine_chunks()


def _rank(values: pa.ChunkedArray) -> pa.ChunkedArray:
    there = pc.cast(pc.is_valid(values), pa.int8())
    return pc.add(there, pc.cast(pc.fill_null(pc.is_nan(values), False), pa.int8())) if pa.types.is_floating(values.type) else there


def upsert_table(
    store: RetriedStore,
    state: TableState,
    rows: Rows,
    *,
    order_by: str | None = None,
    batch: tuple[str, int] | None = None,
    deleted_by: str | None = None,
    columns: Literal["all", "present"] = "all",
    runtime: Runtime = SYSTEM,
) -> tuple[TableState, UpsertResult]:
    """As `Table.upsert` does it. With `columns="present"`, the first row says which columns all of them have."""
    order = None if order_by is None else state.definition.schema.field(order_by, "order_by")
    options = ChangeOptions(order_by=order, batch=_batch(batch), deleted_by=deleted_by, only_present=columns == "present")
    rows = rows if isinstance(rows, pa.Table) else list(rows)
    present = _present(rows, state.definition) if options.only_present else list(state.definition.schema.fields)
    schema = pa.schema([field.to_arrow() for field in present])
    if deleted_by is not None:
        schema = schema.append(pa.field(deleted_by, pa.bool_()))
    delivered = _table(rows, schema)
    if len(present) == len(state.definition.schema.fields):
        return upsert_rows(store, state, options, LocalJobs(rows=delivered, store=store), runtime)
    check_present({field.name: field.type for field in present}, state.definition, order)
    return upsert_present(store, state, options, present, LocalPartialJobs(rows=delivered, store=store), runtime)


def _present(rows: pa.Table | list[Mapping[str, object]], definition: TableDefinition) -> list[Field]:
    names = rows.column_names if isinstance(rows, pa.Table) else list(rows[0]) if rows else definition.schema.names
    return [field for field in definition.schema.fields if field.name in names]


def delete_table(
    store: RetriedStore, state: TableState, keys: Rows, *, batch: tuple[str, int] | None = None, runtime: Runtime = SYSTEM
) -> tuple[TableState, DeleteResult]:
    """As `Table.delete` does it with a frame."""
    schema = pa.schema([field.to_arrow() for field in tag_fields(state.definition)])
    jobs = LocalJobs(rows=_table(keys, schema), store=store, deletes=True)
    return delete_rows(store, state, ChangeOptions(batch=_batch(batch)), jobs, runtime)


def delete_where(store: RetriedStore, state: TableState, where: str, runtime: Runtime = SYSTEM) -> tuple[TableState, DeleteResult]:
    """As `Table.delete` does it with a condition."""

    def job(task: WhereTask, infos: Sequence[ChunksetInfo]) -> Marks:
        return marks_of(task.within(store, infos))

    return delete_matching(store, state, where, ChangeOptions(), job, runtime)


def _table(rows: Rows, schema: pa.Schema) -> pa.Table:
    return rows if isinstance(rows, pa.Table) else pa.Table.from_pylist([dict(row) for row in rows], schema=schema)


def _batch(given: tuple[str, int] | None) -> Batch | None:
    return None if given is None else Batch(application=given[0], number=given[1])
