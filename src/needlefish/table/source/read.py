"""Reading what a task was given: looked-up values as a find reads them, whole chunksets as a scan does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec
import numpy as np
import pyarrow as pa

from needlefish.index.asking import ask_each
from needlefish.model.chunkset import ChunksetInfo
from needlefish.table.find import ROW, Candidate, Match, Wanted, match_rows
from needlefish.table.partition.select import Selection
from needlefish.table.predicate import fields_of, to_expression
from needlefish.table.scan import ScanPlan, ScanReceipt, scan_batches
from needlefish.table.scan.key_range import EVERYTHING
from needlefish.table.skips import Hidden, is_hidden, with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.source.plan import Piece
from needlefish.table.source.request import SourceRead

# Candidate files read at once.
_AT_ONCE = 16
# Rows handed to Spark together: granules are smaller, and each batch is a message between processes.
_BATCH_ROWS = 32_768


def decode_pieces(share: bytes) -> list[Piece]:
    return msgspec.msgpack.decode(share, type=list[Piece])


def new_receipt(read: SourceRead) -> ScanReceipt:
    return ScanReceipt(version=read.state.version, mode="filtered scan", partitions=None, files_total=read.state.totals.files)


def read_pieces(snapshot: Snapshot, read: SourceRead, pieces: Sequence[Piece], receipt: ScanReceipt) -> Iterator[pa.RecordBatch]:
    """The visible rows for which the predicate is true, under the output's schema; the receipt grows as they are taken."""
    if read.wanted is None:
        found = scan_batches(_given(snapshot, read, pieces, receipt))
    else:
        found = _matching(snapshot, read, read.wanted, pieces, receipt)
    return (_as_output(rows, read.output) for rows in _gathered(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given(ScanPlan):
    """A scan whose files were chosen elsewhere."""

    infos: Sequence[ChunksetInfo]

    def chunksets(self) -> Iterator[ChunksetInfo]:
        return iter(self.infos)


def _given(snapshot: Snapshot, read: SourceRead, pieces: Sequence[Piece], receipt: ScanReceipt) -> ScanPlan:
    return _Given(
        snapshot=snapshot,
        columns=read.columns,
        predicate=read.predicate,
        selection=Selection(names=(), allowed=()),
        key_range=EVERYTHING,
        pinned=None,
        receipt=receipt,
        infos=[piece.info for piece in pieces],
    )


def _matching(
    snapshot: Snapshot, read: SourceRead, wanted: Wanted, pieces: Sequence[Piece], receipt: ScanReceipt
) -> Iterator[pa.RecordBatch]:
    """Rows that have a wanted value are found exactly; the rest of the predicate is asked of those alone."""
    columns = list(dict.fromkeys([*read.columns, *fields_of(read.predicate)]))
    holds = to_expression(read.predicate)
    visible = _visible(snapshot, wanted, pieces, receipt)
    while some := list(islice(visible, _AT_ONCE)):
        for match in ask_each(snapshot.store, lambda pair: match_rows(snapshot, pair[0], columns, pair[1]), some):
            rows = match.rows.drop_columns([ROW]).filter(holds).select([field.name for field in read.columns])
            _count(receipt, match, rows)
            yield from rows.to_batches()


def _visible(
    snapshot: Snapshot, wanted: Wanted, pieces: Sequence[Piece], receipt: ScanReceipt
) -> Iterator[tuple[Candidate, Hidden | None]]:
    """The candidates with their hidden rows, without those that have no other."""
    for piece, (info, hidden) in zip(pieces, with_hidden(snapshot, [piece.info for piece in pieces]), strict=True):
        if is_hidden(info, hidden):
            receipt.files_pruned_by_skips += 1
        else:
            yield Candidate(info=info, wanted=_values(wanted, piece), granules=piece.granules), hidden


def _values(wanted: Wanted, piece: Piece) -> Wanted:
    return wanted if piece.values is None else wanted.chosen(np.frombuffer(piece.values, "<u4").astype(np.intp))


def _count(receipt: ScanReceipt, match: Match, rows: pa.Table) -> None:
    receipt.files_read += match.granules_read > 0
    receipt.granules_read += match.granules_read
    receipt.granules_pruned += match.granules_pruned
    receipt.rows_read += match.rows_read
    receipt.rows_skipped += match.rows_skipped
    receipt.rows_returned += rows.num_rows


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches joined."""
    some: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if some and rows + batch.num_rows > _BATCH_ROWS:
            yield pa.concat_batches(some)
            some, rows = [], 0
        some.append(batch)
        rows += batch.num_rows
    if rows:
        yield pa.concat_batches(some)


def _as_output(rows: pa.RecordBatch, output: pa.Schema) -> pa.RecordBatch:
    """Spark's types and spelling of names; the columns' order is the same."""
    columns = [column if column.type == field.type else column.cast(field.type) for column, field in zip(rows.columns, output, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=output)
