"""Deleting by condition: every chunkset that may match is read once, and the rows that do are marked."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from needlefish.format.skips_record import skips_in
from needlefish.model.chunkset import ChunksetInfo
from needlefish.store import RetriedStore, open_store
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.find import ROW
from needlefish.table.predicate import Predicate, fields_of, may_match, to_expression
from needlefish.table.read_task import infos_of
from needlefish.table.scan.granule_evidence import GranuleEvidence
from needlefish.table.skips import Hidden, granule_starts, visible_granules, with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.upsert.marks import Mark, Marks, mark_batch
from needlefish.table.upsert.plan import ComparePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class WhereTask:
    """A callable over batches of chunkset infos."""

    plan: ComparePlan
    predicate: Predicate

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.plan.store)
        marks = list(_matching(self.plan.within(store), self.predicate, (info for rows in batches for info in infos_of(rows))))
        yield mark_batch(marks, store.meter.snapshot().requests)


def matching_here(store: RetriedStore, plan: ComparePlan, predicate: Predicate, infos: Iterable[ChunksetInfo]) -> Marks:
    """The same in this process, for few files."""
    before = store.meter.snapshot()
    marks = tuple(_matching(plan.within(store), predicate, infos))
    return Marks(marks=marks, requests=(store.meter.snapshot() - before).requests)


def _matching(snapshot: Snapshot, predicate: Predicate, infos: Iterable[ChunksetInfo]) -> Iterator[Mark]:
    for info, hidden in with_hidden(snapshot, infos):
        rows = _positions(snapshot, predicate, info, hidden)
        if len(rows):
            yield Mark(skips=skips_in(info, rows.tolist()), deleted=True)


def _positions(
    snapshot: Snapshot, predicate: Predicate, info: ChunksetInfo, hidden: Hidden | None
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The visible rows that match."""
    granules = visible_granules(info, hidden)
    found = [np.empty(0, np.int64)]
    if granules:
        chunkset = open_chunkset(snapshot.store, snapshot.state.definition, info)
        starts = granule_starts(info)
        for number in (number for number in granules if may_match(predicate, GranuleEvidence(chunkset, number))):
            rows = chunkset.read([number], tuple(fields_of(predicate)))
            rows = rows.append_column(ROW, pa.array(np.arange(starts[number], starts[number + 1])))
            matching = rows.filter(to_expression(predicate))
            found.append((matching if hidden is None else hidden.left(matching, matching[ROW]))[ROW].to_numpy())
    return np.concatenate(found)
