"""Sorting more rows than memory holds: sorted pieces go to local files, which are then merged.

Memory holds one piece while they are made, and a batch of each while they are merged: some 64 MB and, for each 64 MB of rows, 1 MB.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.format.key_order import encode_key
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.table.partition import PARTITION_COLUMN
from needlefish.table.upsert.plan import POSITION

PIECE_BYTES = 64 * 1024 * 1024
_BATCH_BYTES = 1024 * 1024
_LEAST_ROWS = 64


def sort_rows(
    batches: Iterable[pa.RecordBatch], definition: TableDefinition, order: Field | None, *, in_partition: bool = True
) -> Iterator[pa.RecordBatch]:
    """Routed rows by partition (unless told otherwise), key, `order` and the order in which they came, which `POSITION` numbers."""
    ranks = Ranks(definition, order, in_partition=in_partition)
    with TemporaryDirectory(prefix="needlefish-sort-") as folder:
        files: list[Path] = []
        last: pa.Table | None = None
        for piece in _pieces(_numbered(batches)):
            # The last piece need not go through a file.
            if last is not None:
                files.append(_spilled(ranks.sort(last), Path(folder) / f"{len(files)}.arrow"))
            last = piece
        streams = [_read(file) for file in files]
        if last is not None:
            streams.append(iter(ranks.sort(last).to_batches(_batch_rows(last))))
        yield from _merged(streams, ranks)


class Ranks:
    """The order that rows of one table are sorted in. No value is older than any value, NaN newer than any number."""

    def __init__(self, definition: TableDefinition, order: Field | None, *, in_partition: bool) -> None:
        self._partition = [PARTITION_COLUMN] if in_partition else []
        self._keys = [field.name for field in definition.key_fields]
        self._types = [field.arrow_type for field in definition.key_fields]
        self._order = None if order is None else order.name

    def sort(self, rows: pa.Table) -> pa.Table:
        columns = {f"key {name}": rows[name] for name in (*self._partition, *self._keys)}
        if self._order is not None:
            columns |= {"rank": order_rank(rows[self._order]), "order": rows[self._order]}
        columns["position"] = rows[POSITION]
        order = pc.sort_indices(pa.table(columns), [(name, "ascending") for name in columns])
        return rows.take(order).combine_chunks()

    def of(self, rows: pa.RecordBatch, at: int) -> tuple[object, ...]:
        """What places of the same rows are compared by, one at a time."""
        key = encode_key([rows[name][at].as_py() for name in self._keys], self._types)
        value = None if self._order is None else rows[self._order][at].as_py()
        return *(rows[name][at].as_py() for name in self._partition), key, _comparable(value), rows[POSITION][at].as_py()


def order_rank(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """0 for no value, 1 for a value, 2 for NaN: Arrow would put nulls and NaN at the same end."""
    there = pc.cast(pc.is_valid(values), pa.int8())
    return pc.add(there, pc.cast(pc.fill_null(pc.is_nan(values), False), pa.int8())) if pa.types.is_floating(values.type) else there


def _comparable(value: object) -> tuple[object, ...]:
    if value is None:
        return (0,)
    return (2,) if isinstance(value, float) and math.isnan(value) else (1, value)


def _numbered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in batches:
        if POSITION in batch.schema.names:
            batch = batch.drop_columns([POSITION])
        yield batch.append_column(POSITION, pa.array(range(first, first + batch.num_rows), pa.int64()))
        first += batch.num_rows


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if waiting and waiting_bytes + batch.nbytes > PIECE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, waiting_bytes = [], 0
        waiting.append(batch)
        waiting_bytes += batch.nbytes
    if waiting:
        yield pa.Table.from_batches(waiting)


def _batch_rows(rows: pa.Table) -> int:
    return int(max(_LEAST_ROWS, rows.num_rows * _BATCH_BYTES // max(1, rows.nbytes)))


def _spilled(rows: pa.Table, file: Path) -> Path:
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=_batch_rows(rows))
    return file


def _read(file: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(file), "rb") as source, pa.ipc.open_stream(source) as reader:
        yield from reader


class _Cursor:
    """A sorted stream, with the batch that is being taken."""

    def __init__(self, stream: Iterator[pa.RecordBatch], ranks: Ranks) -> None:
        self._stream = stream
        self._ranks = ranks
        self.batch: pa.RecordBatch | None = None
        self.last: tuple[object, ...] = ()
        self._step()

    def _step(self) -> None:
        self.batch = next((batch for batch in self._stream if batch.num_rows), None)
        self.last = () if self.batch is None else self._ranks.of(self.batch, self.batch.num_rows - 1)

    def take(self, bound: tuple[object, ...]) -> pa.RecordBatch:
        """The rows up to `bound` of the batch at hand."""
        batch = self.batch
        assert batch is not None, "only streams that have rows left are asked"
        end = batch.num_rows if self.last <= bound else bisect_right(range(batch.num_rows), bound, key=lambda at: self._ranks.of(batch, at))
        if end == batch.num_rows:
            self._step()
        else:
            self.batch = batch.slice(end)
        return batch.slice(0, end)


def _merged(streams: Sequence[Iterator[pa.RecordBatch]], ranks: Ranks) -> Iterator[pa.RecordBatch]:
    """Up to the least of the last rows at hand no stream can bring anything more."""
    cursors = [cursor for cursor in (_Cursor(stream, ranks) for stream in streams) if cursor.batch is not None]
    while len(cursors) > 1:
        bound = min(cursor.last for cursor in cursors)
        parts = [part for part in (cursor.take(bound) for cursor in cursors) if part.num_rows]
        yield from ranks.sort(pa.Table.from_batches(parts)).to_batches()
        cursors = [cursor for cursor in cursors if cursor.batch is not None]
    for cursor in cursors:
        while cursor.batch is not None:
            yield cursor.take(cursor.last)
