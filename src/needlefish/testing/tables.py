"""Tables without Spark: rows in Arrow or as dicts are routed, sorted, written as chunksets and committed.

`build_table(store, schema="id string, n int64", key="id", rows=[{"id": "a", "n": 1}])` gives the state to read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from needlefish.format.skips_record import skips_in
from needlefish.model.definition import TableDefinition
from needlefish.model.log import Action, Batch, TableState
from needlefish.model.schema import schema_from_arrow, schema_from_text
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import RetriedStore, Store
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.commit import commit_append
from needlefish.table.conform import conform
from needlefish.table.create import create_table, define_table
from needlefish.table.find import FindReceipt, find_rows, wanted_keys, wanted_values
from needlefish.table.partition import PARTITION_COLUMN, computed_columns, partition_paths
from needlefish.table.point.declare import PointIndex
from needlefish.table.point.runs import indexed_keys
from needlefish.table.row_changes import RowChanges, commit_changes
from needlefish.table.scan import ScanReceipt, ScanRequest, plan_scan, scan_batches
from needlefish.table.snapshot import RunReaders, Snapshot
from needlefish.table.task import RESULT_SCHEMA, Written, collect, hand_back

Rows: TypeAlias = "pa.Table | Iterable[Mapping[str, object]]"


def build_table(
    store: Store,
    schema: pa.Schema | str,
    key: str | Sequence[str],
    rows: Rows = (),
    *,
    partition_by: str | Sequence[str] = (),
    bloom_columns: str | Sequence[str] = (),
    indexes: Sequence[PointIndex] | None = (),
    properties: Mapping[str, object] | None = None,
    runtime: Runtime = SYSTEM,
) -> TableState:
    """Creates a table and appends `rows`, if there are any, as its first version after the creation."""
    checked = schema_from_text(schema) if isinstance(schema, str) else schema_from_arrow(schema)
    definition = define_table(checked, key, partition_by, properties or {}, runtime, bloom_columns=bloom_columns, indexes=indexes)
    return append_rows(store, create_table(store, definition, runtime), rows, runtime)


def append_rows(store: Store, state: TableState, rows: Rows, runtime: Runtime = SYSTEM) -> TableState:
    """One more version with `rows`; without any the state stays as it is."""
    written = write_rows(store, state, rows, runtime)
    return commit_append(store, state, written, runtime) if written.entries else state


def write_rows(store: Store, state: TableState, rows: Rows, runtime: Runtime = SYSTEM) -> Written:
    """The chunksets of `rows`, written as one task would but not committed."""
    plan = WritePlan(definition=state.definition, prev_max=state.version, indexed_keys=indexed_keys(state))
    entries = write_chunksets(sorted_batches(rows, state.definition), plan, store, runtime)
    return collect(pa.Table.from_batches(hand_back(entries, plan, store, runtime), schema=RESULT_SCHEMA))


def sorted_batches(rows: Rows, definition: TableDefinition, batch_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Rows by partition and key, as the pipeline delivers them."""
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=definition.schema.to_arrow())
    if not table.num_rows:
        return
    batch = conform(table.combine_chunks().to_batches()[0], definition)
    routed = batch.append_column(PARTITION_COLUMN, partition_paths(batch, computed_columns(definition)))
    order = [(PARTITION_COLUMN, "ascending"), *((field.name, "ascending") for field in definition.key_fields)]
    yield from pa.Table.from_batches([routed.take(pc.sort_indices(routed, sort_keys=order))]).to_batches(max_chunksize=batch_rows)


def scan_table(store: Store, state: TableState, **request: object) -> tuple[pa.Table, ScanReceipt]:
    """All rows that a scan returns, and what it read for them."""
    plan = plan_scan(Snapshot(store=store, state=state), ScanRequest(**request))  # type: ignore[arg-type]
    batches = list(scan_batches(plan))
    return pa.Table.from_batches(batches, schema=pa.schema([field.to_arrow() for field in plan.columns])), plan.receipt


def find_table(
    store: RetriedStore, state: TableState, keys: Sequence[object] | None = None, *, readers: RunReaders | None = None, **values: object
) -> tuple[pa.Table, FindReceipt]:
    """All rows that a find returns, and its receipt; `readers` of an earlier find stand for a warm handle."""
    apart = store.apart()
    wanted = wanted_values(state.definition, values) if keys is None else wanted_keys(state.definition, keys)
    snapshot = Snapshot(store=apart, state=state, readers=readers or RunReaders())
    return find_rows(snapshot, wanted, state.definition.schema.fields, apart.meter)


def skip_rows(
    store: Store,
    state: TableState,
    hidden: Callable[[Mapping[str, object]], bool],
    *,
    rows: Rows = (),
    batch: Batch | None = None,
    runtime: Runtime = SYSTEM,
) -> TableState:
    """One version that hides every visible row for which `hidden` says so, and brings `rows`, as an upsert or a delete does."""
    snapshot = Snapshot(store=store, state=state)
    skips = []
    for info, known in plan_scan(snapshot, ScanRequest()).visible_chunksets():
        stored = open_chunkset(store, state.definition, info).read(range(len(info.granules)), state.definition.schema.fields)
        before = known.rows if known else BitMap()
        chosen = BitMap(number for number, row in enumerate(stored.to_pylist()) if number not in before and hidden(row))
        skips += [skips_in(info, chosen)] if chosen else []
    written = write_rows(store, state, rows, runtime)
    action: Action = "upsert" if written.entries else "delete"
    changes = RowChanges(action=action, written=written, skips=tuple(skips), batch=batch)
    return commit_changes(store, state, changes, runtime=runtime).state
