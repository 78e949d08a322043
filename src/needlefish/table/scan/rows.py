"""Reading chunksets: a few pieces at a time in reader threads, handed out in order.

A piece is a stretch of granules of one chunkset. Memory holds at most `_AHEAD` pieces, whatever the table's size.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import pyarrow as pa

from needlefish.model.chunkset import ChunksetInfo
from needlefish.runtime import in_background
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.predicate import fields_of, may_match, to_expression
from needlefish.table.predicate.tree import TRUE
from needlefish.table.scan.granule_evidence import GranuleEvidence
from needlefish.table.scan.plan import ScanPlan
from needlefish.table.skips import Hidden, shown_rows, visible_granules
from needlefish.timeline.replay import told_if_cleaned

# Rows decoded together: enough to keep pyarrow busy, few enough that several pieces fit in memory.
_PIECE_ROWS = 131_072
_AHEAD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Granules of one chunkset."""

    info: ChunksetInfo
    granules: tuple[int, ...]
    hidden: Hidden | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What came out of a piece."""

    rows: pa.Table
    rows_read: int
    rows_skipped: int
    granules_read: int
    granules_pruned: int


def scan_batches(plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """Every matching row, in the order of partitions' files and keys inside them. The receipt is complete at the end."""
    waiting: deque[Future[_Found]] = deque()
    with told_if_cleaned(plan.snapshot.store, plan.snapshot.state):
        for piece in _pieces(plan):
            waiting.append(in_background(_read, plan, piece))
            if len(waiting) >= _AHEAD:
                yield from _taken(waiting.popleft().result(), plan)
        while waiting:
            yield from _taken(waiting.popleft().result(), plan)


def _taken(found: _Found, plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    plan.receipt.rows_read += found.rows_read
    plan.receipt.rows_skipped += found.rows_skipped
    plan.receipt.granules_read += found.granules_read
    plan.receipt.granules_pruned += found.granules_pruned
    plan.receipt.rows_returned += found.rows.num_rows
    yield from (batch for batch in found.rows.to_batches() if batch.num_rows)


def _pieces(plan: ScanPlan) -> Iterator[_Piece]:
    """Sizes come from the granule table, so that planning opens no file."""
    for info, hidden in plan.visible_chunksets():
        plan.receipt.files_read += 1
        visible = visible_granules(info, hidden)
        plan.receipt.granules_pruned_by_skips += len(info.granules) - len(visible)
        yield from (_Piece(info=info, granules=granules, hidden=hidden) for granules in _stretches(info, visible))


def _stretches(info: ChunksetInfo, granules: Sequence[int]) -> Iterator[tuple[int, ...]]:
    taken: list[int] = []
    rows = 0
    for number in granules:
        taken.append(number)
        rows += info.granules[number].rows
        if rows >= _PIECE_ROWS:
            yield tuple(taken)
            taken, rows = [], 0
    if taken:
        yield tuple(taken)


def _read(plan: ScanPlan, piece: _Piece) -> _Found:
    chunkset = open_chunkset(plan.snapshot.store, plan.snapshot.state.definition, piece.info)
    kept = [number for number in piece.granules if plan.predicate == TRUE or may_match(plan.predicate, GranuleEvidence(chunkset, number))]
    needed = list(dict.fromkeys([*plan.columns, *fields_of(plan.predicate)]))
    rows = chunkset.read(kept, needed)
    shown = rows if piece.hidden is None else rows.filter(pa.array(shown_rows(piece.info, piece.hidden, kept)))
    found = shown if plan.predicate == TRUE else shown.filter(to_expression(plan.predicate))
    return _Found(
        rows=found.select([field.name for field in plan.columns]),
        rows_read=rows.num_rows,
        rows_skipped=rows.num_rows - shown.num_rows,
        granules_read=len(kept),
        granules_pruned=len(piece.granules) - len(kept),
    )
