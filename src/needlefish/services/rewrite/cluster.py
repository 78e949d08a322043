"""Clustering: rows of many files sorted anew, by columns or by their Z-values. What tasks do before and after the sort.

Between them an engine sorts all rows; `clustered` does it here, a partition at a time in memory, for tables that are small.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from needlefish.config import StoreConfig
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.entries import ChunksetEntries
from needlefish.model.log import TableState
from needlefish.model.schema import RESERVED, Field
from needlefish.runtime import Runtime, in_parallel
from needlefish.services.rewrite.compact import routed, rows_by_key, write_plan, written_whole
from needlefish.services.rewrite.inputs import Input, inputs_of, live_infos, rows_of
from needlefish.services.rewrite.plan import RewritePlan, Target
from needlefish.services.rewrite.zorder import bits_for, cuts_of, z_values
from needlefish.store import open_store
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.partition import PARTITION_COLUMN
from needlefish.table.read_task import infos_of, signed
from needlefish.table.skips import with_hidden
from needlefish.table.snapshot import Snapshot

# Rides along with rows on their way to the task that writes them; never stored.
Z_COLUMN = f"{RESERVED}_z"

# Granules looked at to divide columns, and the most rows of these.
_SAMPLE_GRANULES = 128
_SAMPLE_ROWS = 1_000_000


def order_fields(state: TableState, plan: RewritePlan) -> tuple[Field, ...]:
    """The columns to sort by."""
    return tuple(state.definition.schema.field_by_id(field_id) for field_id in plan.order or state.definition.key)


def z_cuts(snapshot: Snapshot, plan: RewritePlan) -> tuple[pa.Array, ...]:
    """What divides each column of a Z-order: from granules spread over all inputs. Nothing for another order."""
    if plan.curve != "zorder":
        return ()
    fields = order_fields(snapshot.state, plan)
    sample = pa.concat_tables(in_parallel(lambda place: _granule(snapshot, *place, fields), _places(live_infos(snapshot, plan.inputs))))
    return tuple(cuts_of(sample[field.name].combine_chunks(), bits_for(len(fields))) for field in fields)


def _places(infos: Sequence[ChunksetInfo]) -> list[tuple[ChunksetInfo, int]]:
    total = sum(len(info.granules) for info in infos)
    rows = sum(info.rows for info in infos)
    count = max(1, min(_SAMPLE_GRANULES, total, _SAMPLE_ROWS * total // max(1, rows)))
    wanted = set(np.linspace(0, total - 1, count).astype(np.int64).tolist())
    listed = ((info, number) for info in infos for number in range(len(info.granules)))
    return [place for at, place in enumerate(listed) if at in wanted]


def _granule(snapshot: Snapshot, info: ChunksetInfo, number: int, fields: Sequence[Field]) -> pa.Table:
    return open_chunkset(snapshot.store, snapshot.state.definition, info).read([number], fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReadTask:
    """A callable over batches of chunkset infos: their visible rows as types that Spark has, with what they are sorted by."""

    state: TableState
    store: StoreConfig
    z_fields: tuple[Field, ...] = ()
    cuts: tuple[pa.Array, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        found = signed(self.state.definition.schema.to_arrow()).append(pa.field(PARTITION_COLUMN, pa.string()))
        return found.append(pa.field(Z_COLUMN, pa.int64())) if self.z_fields else found

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        snapshot = Snapshot(store=open_store(self.store), state=self.state)
        fields = self.state.definition.schema.fields
        for info, hidden in with_hidden(snapshot, (info for rows in batches for info in infos_of(rows))):
            for batch in routed(rows_of(snapshot, Input(info=info, hidden=hidden), fields), info.partition):
                yield from pa.Table.from_batches([with_z(batch, self.z_fields, self.cuts)]).cast(self.schema).to_batches()


def with_z(rows: pa.RecordBatch, fields: Sequence[Field], cuts: Sequence[pa.Array]) -> pa.RecordBatch:
    """The rows with their Z-values, where they are sorted by these."""
    return rows.append_column(Z_COLUMN, z_values([rows[field.name] for field in fields], cuts)) if fields else rows


def cluster_write_plan(state: TableState, plan: RewritePlan, owner: str = "") -> WritePlan:
    """What the task that writes needs to know; its rows come by partition and in their new order."""
    sized = write_plan(state, Target(bytes=plan.target_bytes, rows=plan.target_rows))
    return replace(sized, order=plan.order, curve=plan.curve, owner=owner)


def clustered(snapshot: Snapshot, plan: RewritePlan, runtime: Runtime) -> Iterator[ChunksetEntries]:
    """Sorts and writes every group in this process. By row key memory is bounded, by other columns it holds a group's rows."""
    write, cuts = cluster_write_plan(snapshot.state, plan), z_cuts(snapshot, plan)
    for group in plan.groups:
        inputs = inputs_of(snapshot, group.files)
        rows = _resorted(snapshot, plan, inputs, cuts) if plan.order else rows_by_key(snapshot, inputs)
        yield from written_whole(snapshot.store, inputs, write_chunksets(routed(rows, group.partition), write, snapshot.store, runtime))


def _resorted(snapshot: Snapshot, plan: RewritePlan, inputs: Sequence[Input], cuts: Sequence[pa.Array]) -> Iterator[pa.Table]:
    definition, fields = snapshot.state.definition, order_fields(snapshot.state, plan)
    parts = [part for one in inputs for part in rows_of(snapshot, one, definition.schema.fields)]
    batches = [batch for part in parts for batch in part.to_batches()]
    if not batches:
        return
    together = pa.Table.from_batches([with_z(batch, fields if cuts else (), cuts) for batch in batches])
    names = [Z_COLUMN] if cuts else [field.name for field in fields]
    by = [(name, "ascending", "at_start") for name in dict.fromkeys([*names, *(key.name for key in definition.key_fields)])]
    ordered = together.take(pc.sort_indices(together, by))
    yield ordered.drop_columns([Z_COLUMN]) if cuts else ordered
