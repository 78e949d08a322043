"""From rows sorted by partition and key (or clustered) to chunksets: what one Spark task does, and any other process may.

Memory holds one chunkset at most. A file becomes part of the table only through a later commit, so that a task that
fails, is retried or runs twice leaves an orphan and nothing else.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from needlefish.errors import InvalidError
from needlefish.model.chunkset import ChunksetId, ChunksetInfo, Curve, PartitionPath
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import ChunksetEntries
from needlefish.runtime import Runtime
from needlefish.store import Store
from needlefish.table.chunkset_entries import EntriesCollector
from needlefish.table.conform import conform
from needlefish.table.key_bounds import KeyBounds, rounded_keys
from needlefish.table.parquet_writer import ParquetBuffer, ParquetBytes
from needlefish.table.partition import PARTITION_COLUMN, computed_columns, partition_paths, values_of_path
from needlefish.table.row_order import above_next, equal_next


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What a task needs to know to write chunksets; `prev_max` is the version its keys were compared against."""

    definition: TableDefinition
    prev_max: int
    # How many keys every point index has already.
    indexed_keys: Mapping[str, int] = field(default_factory=dict)
    # The columns that rows are clustered by, as field ids; without any they must come sorted by key.
    order: tuple[int, ...] = ()
    curve: Curve = "linear"
    # The attempt that all ids begin with.
    owner: str = ""


def write_chunksets(batches: Iterable[pa.RecordBatch], plan: WritePlan, store: Store, runtime: Runtime) -> Iterator[ChunksetEntries]:
    """Writes every row and yields each chunkset once its file is complete."""
    keys = [field.name for field in plan.definition.key_fields]
    before: _Sorted | None = None
    writer = _Writer(plan, store, runtime)
    columns = computed_columns(plan.definition)
    for batch in batches:
        routed = PARTITION_COLUMN in batch.schema.names
        rows = conform(batch, plan.definition)
        paths = batch[PARTITION_COLUMN] if routed else partition_paths(rows, columns)
        for partition, piece in _by_partition(rows, paths):
            part = _Sorted(partition=partition, rows=piece)
            if not plan.order:
                _check_order(before, part, keys)
            yield from writer.add(partition, piece)
            before = part
    yield from writer.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sorted:
    """Rows of one partition in key order."""

    partition: PartitionPath
    rows: pa.RecordBatch


def _by_partition(rows: pa.RecordBatch, paths: pa.Array) -> Iterator[tuple[PartitionPath, pa.RecordBatch]]:
    """Cuts rows where the partition changes."""
    if not rows.num_rows:
        return
    codes = paths.dictionary_encode().indices.to_numpy()
    cuts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), rows.num_rows]
    for first, end in pairwise(cuts):
        yield PartitionPath(paths[first].as_py()), rows.slice(first, end - first)


def _check_order(before: _Sorted | None, now: _Sorted, keys: Sequence[str]) -> None:
    """Equal keys are neighbours, since rows arrive sorted; the last row of the piece before counts too."""
    rows = now.rows.select(keys)
    if before and before.partition == now.partition:
        last = before.rows.select(keys).slice(before.rows.num_rows - 1)
        rows = pa.Table.from_batches([last, rows]).combine_chunks().to_batches()[0]
    if rows.num_rows < 2:
        return
    # First and last key would be wrong, and scans would lose rows without a word.
    assert not pc.any(above_next(rows)).as_py(), f"rows of partition {now.partition} are not sorted by {', '.join(keys)}"
    at = pc.index(equal_next(rows), True).as_py()
    if at >= 0:
        key = rows.slice(at, 1).to_pylist()[0]
        where = "" if now.partition == "." else f" in partition {now.partition}"
        raise InvalidError(f"df has the key {key} more than once{where}; append takes rows with distinct keys: deduplicate them first")


class _Writer:
    """The chunkset being filled: rows wait until they make a granule, granules until they make a chunkset."""

    def __init__(self, plan: WritePlan, store: Store, runtime: Runtime) -> None:
        self._plan = plan
        self._store = store
        self._runtime = runtime
        self._partition: PartitionPath | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._rows = 0
        self._file: ParquetBuffer | None = None
        self._entries = EntriesCollector(plan.definition)
        self._bounds = self._new_bounds()

    def add(self, partition: PartitionPath, rows: pa.RecordBatch) -> Iterator[ChunksetEntries]:
        if partition != self._partition:
            yield from self.finish()
            self._partition = partition
        while rows.num_rows:
            taken = self._take(rows)
            rows = rows.slice(taken)
            if self._is_full():
                yield from self.finish()

    def _take(self, rows: pa.RecordBatch) -> int:
        """Takes as many rows as the granule and the chunkset have room for."""
        properties = self._plan.definition.properties
        room = min(properties.granule_rows - self._waiting_rows, properties.chunkset_rows - self._rows - self._waiting_rows)
        taken = rows.slice(0, room)
        self._waiting.append(taken)
        self._waiting_rows += taken.num_rows
        if self._waiting_rows == properties.granule_rows:
            self._flush()
        return int(taken.num_rows)

    def _is_full(self) -> bool:
        properties = self._plan.definition.properties
        full_rows = self._rows + self._waiting_rows >= properties.chunkset_rows
        return full_rows or (self._file is not None and self._file.bytes >= properties.chunkset_bytes)

    def _flush(self) -> None:
        """Waiting rows become a granule."""
        if not self._waiting_rows:
            return
        granule = pa.Table.from_batches(self._waiting)
        if self._file is None:
            self._file = ParquetBuffer(self._plan.definition, granule, self._plan.order, self._plan.curve)
            self._entries = EntriesCollector(self._plan.definition)
            self._bounds = self._new_bounds()
        self._bounds.add(granule)
        self._file.add(granule)
        self._entries.add(granule)
        self._rows += granule.num_rows
        self._waiting, self._waiting_rows = [], 0

    def _new_bounds(self) -> KeyBounds:
        return KeyBounds(self._plan.definition.key_fields, is_sorted=not self._plan.order)

    def finish(self) -> Iterator[ChunksetEntries]:
        """Puts the file. A crash before the put leaves nothing, after it an orphan that a clean removes."""
        self._flush()
        if self._file is None:
            return
        done = self._file.finish()
        info = self._info(done)
        self._store.put(info.path, done.data)
        self._file, self._rows = None, 0
        stats, filters = self._entries.column_stats(done.metadata), self._entries.bloom_filters()
        yield ChunksetEntries(info=info, column_stats=stats, bloom_filters=filters, point_entries=self._entries.point_entries())

    def _info(self, done: ParquetBytes) -> ChunksetInfo:
        assert self._partition is not None
        assert self._bounds.first is not None, "a file with rows"
        assert self._bounds.last is not None, "a file with rows"
        first_key, last_key = rounded_keys(self._bounds.first, self._bounds.last)
        return ChunksetInfo(
            id=ChunksetId(self._runtime.new_id()),
            partition=self._partition,
            partition_values=values_of_path(self._partition),
            rows=self._rows,
            bytes=len(done.data),
            footer_bytes=done.footer_bytes,
            footer_checksum=done.footer_checksum,
            first_key=first_key,
            last_key=last_key,
            prev_max=self._plan.prev_max,
            schema_id=self._plan.definition.schema.id,
            granules=done.granules,
            order=self._plan.order,
            curve=self._plan.curve if self._plan.order else "linear",
        )
