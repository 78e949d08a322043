"""Compaction: groups of files become chunksets of the same rows, without those that are hidden.

Files sorted by key are merged in memory of a piece of each; others are sorted first, in stretches that wait on disk. Files that
were clustered the same way follow each other as they are, so that they stay clustered.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError
from needlefish.model.chunkset import Curve, PartitionPath
from needlefish.model.entries import ChunksetEntries
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.rewrite.inputs import Input, inputs_of, rows_of
from needlefish.services.rewrite.merging import SortedStream, merged_rows
from needlefish.services.rewrite.plan import Group, Target
from needlefish.services.rewrite.sorting import sorted_streams
from needlefish.store import Store, open_store
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.partition import PARTITION_COLUMN
from needlefish.table.point.runs import indexed_keys
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import answered, hand_back

_BY_KEY: tuple[tuple[int, ...], Curve] = ((), "linear")


def write_plan(state: TableState, target: Target) -> WritePlan:
    """All that was committed up to `state` is folded in, so that this is what the keys were compared against."""
    properties = replace(state.definition.properties, chunkset_bytes=target.bytes, chunkset_rows=target.rows)
    definition = replace(state.definition, properties=properties)
    return WritePlan(definition=definition, prev_max=state.version, indexed_keys=indexed_keys(state))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactTask:
    """A callable over batches of encoded groups (`shares.item_rows`) that any process can run; one group at a time."""

    state: TableState
    store: StoreConfig
    target: Target
    # The attempt that all ids begin with.
    owner: str = ""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = (msgspec.msgpack.decode(item, type=Group) for rows in batches for item in rows["item"].to_pylist())
        snapshot = Snapshot(store=open_store(self.store), state=self.state)
        yield from compact_groups(snapshot, groups, self.target, SYSTEM.owned(self.owner))


def compact_groups(snapshot: Snapshot, groups: Iterable[Group], target: Target, runtime: Runtime) -> Iterator[pa.RecordBatch]:
    """The result rows of all groups, with their filters and index entries put as runs."""
    plan = write_plan(snapshot.state, target)
    entries = (entry for group in groups for entry in compacted(snapshot, group, plan, runtime))
    yield from answered(hand_back(entries, plan, snapshot.store, runtime))


def compacted(snapshot: Snapshot, group: Group, plan: WritePlan, runtime: Runtime) -> Iterator[ChunksetEntries]:
    """Writes the visible rows of a group, each chunkset as it is complete, and makes sure that these are all."""
    inputs = inputs_of(snapshot, group.files)
    orders = {(one.info.order, one.info.curve) for one in inputs}
    order, curve = orders.pop() if len(orders) == 1 else _BY_KEY
    rows = _in_turn(snapshot, inputs) if order else rows_by_key(snapshot, inputs)
    ordered = replace(plan, order=order, curve=curve)
    yield from written_whole(snapshot.store, inputs, write_chunksets(routed(rows, group.partition), ordered, snapshot.store, runtime))


def written_whole(store: Store, inputs: Sequence[Input], entries: Iterable[ChunksetEntries]) -> Iterator[ChunksetEntries]:
    """The entries of a group, all of whose rows must be there when the last is."""
    written = 0
    for entry in entries:
        written += entry.info.rows
        yield entry
    check_rows(store.uri, sum(one.visible for one in inputs), written)


def check_rows(uri: str, visible: int, written: int) -> None:
    """A rewrite changes no visible row: what is not even as many must not become true."""
    if visible != written:
        raise CorruptError(
            f"{uri}: {visible} rows are visible in the files that were read, but {written} were written; nothing was committed"
        )


def routed(rows: Iterable[pa.Table], partition: PartitionPath) -> Iterator[pa.RecordBatch]:
    """All rows lie where their files do; nothing is computed anew."""
    for part in rows:
        for batch in part.to_batches():
            yield batch.append_column(PARTITION_COLUMN, pa.repeat(pa.scalar(partition, pa.string()), batch.num_rows))


def _in_turn(snapshot: Snapshot, inputs: Sequence[Input]) -> Iterator[pa.Table]:
    fields = snapshot.state.definition.schema.fields
    return (rows for one in inputs for rows in rows_of(snapshot, one, fields))


def rows_by_key(snapshot: Snapshot, inputs: Sequence[Input]) -> Iterator[pa.Table]:
    """The visible rows of all inputs in key order."""
    keys, fields = snapshot.state.definition.key_fields, snapshot.state.definition.schema.fields
    ready = [one for one in inputs if one.info.is_sorted]
    with ExitStack() as kept:
        streams = [SortedStream(first_key=one.info.first_key, pieces=partial(rows_of, snapshot, one, fields, len(ready))) for one in ready]
        streams += sorted_streams(_in_turn(snapshot, [one for one in inputs if not one.info.is_sorted]), keys, kept)
        yield from merged_rows(streams, keys)
