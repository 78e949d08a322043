"""Deleting by condition: every chunkset that may match is read once, and the rows that do are marked."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from needlefish.format.skips_record import skips_in
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.store import RetriedStore, open_store
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.find import ROW
from needlefish.table.predicate import Predicate, fields_of, may_match, to_expression
from needlefish.table.read_task import infos_of
from needlefish.table.row_changes import RowChanges, commit_changes, is_repeated
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.scan.granule_evidence import GranuleEvidence
from needlefish.table.skips import Hidden, granule_starts, visible_granules, with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.upsert.healing import Healing
from needlefish.table.upsert.marks import Mark, Marks, mark_batch
from needlefish.table.upsert.plan import ComparePlan
from needlefish.table.upsert.result import DeleteResult
from needlefish.table.upsert.run import ChangeOptions, Stages
from needlefish.timeline import Start, Work, working

# Up to so many files are looked through in this process: starting a job would take longer.
_FEW_FILES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WhereTask:
    """A callable over batches of chunkset infos."""

    plan: ComparePlan
    predicate: Predicate

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.within(open_store(self.plan.store), (info for rows in batches for info in infos_of(rows)))

    def within(self, store: RetriedStore, infos: Iterable[ChunksetInfo]) -> Iterator[pa.RecordBatch]:
        """The same in a store that is open already."""
        marks = list(_matching(self.plan.within(store), self.predicate, infos))
        yield mark_batch(marks, store.meter.snapshot().requests)


# Runs the task over many files.
WhereJob = Callable[[WhereTask, Sequence[ChunksetInfo]], Marks]


def delete_matching(
    store: RetriedStore, state: TableState, where: str, options: ChangeOptions, job: WhereJob, runtime: Runtime
) -> tuple[TableState, DeleteResult]:
    """Hides every row that matches, those that others commit meanwhile included."""
    # A condition that cannot be understood is refused before anything is written.
    plan_scan(Snapshot(store=store, state=state), ScanRequest(where=where))
    if is_repeated(state, options.batch):
        return state, DeleteResult(version=state.version, repeated=True)
    with working(store, state, Start(action="delete"), runtime) as work:
        result = _deleted(store, work.since(state), where, options, job, work)
    return work.state, replace(result, version=work.state.version)


def _deleted(store: RetriedStore, state: TableState, where: str, options: ChangeOptions, job: WhereJob, work: Work) -> DeleteResult:
    predicate = plan_scan(Snapshot(store=store, state=state), ScanRequest(where=where)).predicate
    before, stages = store.meter.snapshot(), Stages(work.runtime)

    def matching(within: TableState) -> Marks:
        plan = ComparePlan(state=within, store=store.config)
        infos = list(plan_scan(Snapshot(store=store, state=within), ScanRequest(where=where)).chunksets())
        return _here(store, plan, predicate, infos) if len(infos) <= _FEW_FILES else job(WhereTask(plan=plan, predicate=predicate), infos)

    with stages.timed("compare"):
        marks = matching(state)
    # Whether a new chunkset can match is for the comparison to say: it knows partitions and statistics.
    heal = Healing(store, state, lambda info: True, matching)
    with stages.timed("commit"):
        changes = RowChanges(action="delete", skips=marks.skips, batch=options.batch)
        done = commit_changes(store, state, changes, heal=heal, runtime=work.runtime, work=work)
    requests = (store.meter.snapshot() - before).requests + marks.plus(heal.marks).requests
    return DeleteResult(
        version=done.state.version,
        deleted=done.skipped,
        repeated=done.repeated,
        requests=requests,
        healed=heal.rounds,
        seconds=stages.total,
        stages=stages.seconds,
    )


def _here(store: RetriedStore, plan: ComparePlan, predicate: Predicate, infos: Iterable[ChunksetInfo]) -> Marks:
    """In this process, for few files; whoever owns the store is charged anyway."""
    return Marks(marks=tuple(_matching(plan.within(store), predicate, infos)))


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
