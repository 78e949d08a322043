"""An upsert of rows that lack columns: what they lack is read from the rows that they replace, found as a tag finds them.

Kept values may be stale once others have committed. Where they touched a key of the batch, all rows are completed anew
from the newest version; the rows themselves were put aside, and are not asked for again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa

from needlefish.errors import ConflictError, InvalidError, NeedlefishError
from needlefish.format.run import path_of
from needlefish.format.skips_record import Skips, united
from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.model.schema import Field
from needlefish.runtime import Runtime
from needlefish.store import RetriedStore
from needlefish.table.commit import totals_of
from needlefish.table.conform import check_columns, check_required
from needlefish.table.planned import check_unplanned, planned_files
from needlefish.table.row_changes import Committed, RowChanges, commit_changes, is_repeated, newly_hidden
from needlefish.table.tag import tag_fields
from needlefish.table.task import RESULT_SCHEMA, Written, collect
from needlefish.table.upsert.healing import Healing
from needlefish.table.upsert.marks import Mark, Marks
from needlefish.table.upsert.partial_read import LocateRowsTask, PartialPlan, ReadOldTask
from needlefish.table.upsert.partial_write import CompleteNote, CompleteTask, complete_note_of, head_parcels
from needlefish.table.upsert.plan import ChangePlan, ComparePlan
from needlefish.table.upsert.result import UpsertResult
from needlefish.table.upsert.run import FEW_KEYS, ChangeOptions, Comparing, Stages, healing_for, infos_written, plan_change, remove_work
from needlefish.table.upsert.sources import Source
from needlefish.table.upsert.write import WriteNote, note_of
from needlefish.timeline import Start, Work, working

# Each round means that others committed some of the same keys, and costs about as much as the whole change.
MOST_ROUNDS = 20


class PartialJobs(Comparing, Protocol):
    """Who does the work."""

    def stage(self, plan: ChangePlan, present: tuple[int, ...]) -> Written:
        """Runs the task that puts rows aside over all incoming rows, sorted as it wants them."""
        ...

    def complete(self, sources: Sequence[Source], plan: PartialPlan) -> Written:
        """Runs the tasks that read what staged rows lack and write the whole."""
        ...


class _StaleError(Exception):
    """Others have committed keys of the batch: what was kept of their rows is no longer what the table says."""

    def __init__(self, newest: TableState) -> None:
        super().__init__(f"version {newest.version}")
        self.newest = newest


def upsert_present(
    store: RetriedStore, state: TableState, options: ChangeOptions, present: Sequence[Field], jobs: PartialJobs, runtime: Runtime
) -> tuple[TableState, UpsertResult]:
    """Writes all rows, completed from those that they replace, and hides these, as one version."""
    if is_repeated(state, options.batch):
        return state, UpsertResult(version=state.version, repeated=True)
    with working(store, state, Start(action="upsert"), runtime) as work:
        result = _upserted(store, work.since(state), options, present, jobs, work)
    return work.state, replace(result, version=work.state.version)


def _upserted(
    store: RetriedStore, state: TableState, options: ChangeOptions, present: Sequence[Field], jobs: PartialJobs, work: Work
) -> UpsertResult:
    runtime = work.runtime
    plan, stages, before = plan_change(store, state, options, work), Stages(runtime), store.meter.snapshot()
    ids = tuple(field.id for field in present)
    try:
        with stages.timed("write"):
            notes = [note_of(note) for note in jobs.stage(plan, ids).notes]
        change = _Change(store=store, options=options, present=ids, jobs=jobs, work=work, stages=stages, notes=notes)
        change.check_unplanned(work.state)
        done = change.committed(state)
    finally:
        remove_work(store, plan.work)
    requests = (store.meter.snapshot() - before).requests + change.requests
    return _result(done, change, requests)


def check_present(delivered: dict[str, str], definition: TableDefinition, order_by: Field | None) -> None:
    """Compares the columns of a frame (name to type text) with those that its rows must have and may have."""
    check_required(tag_fields(definition), delivered)
    check_columns({field.name: field.type for field in definition.schema.fields} | delivered, definition)
    if order_by is not None and order_by.name not in delivered:
        raise InvalidError(f"order_by names column {order_by.name!r}, which df lacks; add it, or leave order_by out")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """One attempt, from the state that it was made from."""

    base: TableState
    written: Written
    notes: tuple[CompleteNote, ...]
    # What deletes hide.
    deletes: Marks

    @property
    def replaced(self) -> tuple[Skips, ...]:
        return tuple(united(old.skips for note in self.notes for old in note.replaced).values())

    @property
    def outranking(self) -> tuple[Skips, ...]:
        return tuple(united(old.skips for note in self.notes for old in note.outranking).values())

    @property
    def marks(self) -> Marks:
        return Marks(marks=tuple(Mark(skips=skips) for skips in self.replaced)).plus(self.deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """The round that was committed."""

    round: _Round
    committed: Committed


def _result(done: _Done, change: "_Change", requests: int) -> UpsertResult:
    last, committed = done.round, done.committed
    totals, counts = totals_of(infos_written(last.written)), last.marks.counted(committed.newly)
    known = UpsertResult(
        version=committed.state.version,
        duplicates=sum(note.duplicates for note in change.notes),
        repeated=committed.repeated,
        requests=requests,
        healed=change.rounds,
        seconds=change.stages.total,
        stages=change.stages.seconds,
    )
    if committed.repeated:
        return known
    return replace(
        known,
        inserted=totals.rows - counts.replaced,
        replaced=counts.replaced,
        late=sum(note.late for note in last.notes),
        deleted=counts.deleted,
        files=totals.files,
        bytes=totals.bytes,
    )


@dataclass(kw_only=True)
class _Change:
    """Staged rows on their way into the table, over all rounds."""

    store: RetriedStore
    options: ChangeOptions
    present: tuple[int, ...]
    jobs: PartialJobs
    work: Work
    stages: Stages
    notes: Sequence[WriteNote]
    # Requests of tasks, and rounds that came to nothing.
    requests: int = field(init=False)
    rounds: int = 0

    def __post_init__(self) -> None:
        self.requests = sum(note.requests for note in self.notes)

    @property
    def _staged(self) -> list[Source]:
        return [Source(staged=file) for note in self.notes for file in note.row_files]

    @property
    def _deleted(self) -> list[Source]:
        return [Source(deleted=file) for note in self.notes for file in note.key_files]

    def check_unplanned(self, newest: TableState) -> None:
        """Refuses keys whose rows an immutable plan is going to read, before any of them is completed."""
        # Of rows that were put aside only the keys count here, as of deletes.
        sources = [Source(deleted=file) for note in self.notes for file in (*note.row_files, *note.key_files)]
        if sources and planned_files(self.store, newest) and newest.runs_of("files"):
            marks = self.jobs.compare(sources, ComparePlan(state=newest, store=self.store.config))
            check_unplanned(self.store, newest, (mark.skips.key for mark in marks.marks))

    def committed(self, state: TableState) -> _Done:
        while self.rounds < MOST_ROUNDS:
            made = self._round(state)
            try:
                with self.stages.timed("commit"):
                    done = self._commit(made)
            except _StaleError as stale:
                self.rounds += 1
                state = stale.newest
                _abandon(self.store, made.written)
                continue
            if done.repeated:
                _abandon(self.store, made.written)
            return _Done(round=made, committed=done)
        raise ConflictError(
            f"{self.store.uri}: others committed rows of the same keys {MOST_ROUNDS} times while this upsert of some columns was made; retry when fewer writers share them"
        )

    def _round(self, state: TableState) -> _Round:
        compare, deleted = self._compare_plan(state), self._deleted
        with self.stages.timed("complete"):
            written = self._completed(PartialPlan(compare=compare, present=self.present, owner=self.work.claim.attempt))
        with self.stages.timed("compare"):
            deletes = self.jobs.compare(deleted, compare) if deleted and state.runs_of("files") else Marks()
        notes = tuple(complete_note_of(note) for note in written.notes)
        self.requests += deletes.requests + sum(note.requests for note in notes)
        return _Round(base=state, written=written, notes=notes, deletes=deletes)

    def _completed(self, plan: PartialPlan) -> Written:
        """After a lost round few rows are completed in this process: the sooner, the less others can do meanwhile."""
        sources = self._staged
        few = self.rounds and sum(source.rows for source in sources) <= FEW_KEYS
        return complete_here(self.store, sources, plan) if few or not sources else self.jobs.complete(sources, plan)

    def _compare_plan(self, state: TableState) -> ComparePlan:
        order = self.options.order_by
        return ComparePlan(state=state, store=self.store.config, order_by=None if order is None else order.id)

    def _commit(self, made: _Round) -> Committed:
        sources = [*(Source(written=info) for info in infos_written(made.written)), *self._deleted]
        healing = healing_for(self.store, sources, self._compare_plan(made.base), self.jobs, Marks())

        def heal(base: TableState, newest: TableState) -> Iterable[Skips]:
            if newest.version > base.version and self._is_stale(made, healing, newest):
                raise _StaleError(newest)
            return ()

        changes = RowChanges(action="upsert", written=made.written, skips=made.marks.skips, batch=self.options.batch)
        return commit_changes(self.store, made.base, changes, heal=heal, runtime=self.work.runtime, work=self.work)

    def _is_stale(self, made: _Round, healing: Healing, newest: TableState) -> bool:
        """Whether a row that counted is hidden by now, or a key of the batch has a new one."""
        counted = (*made.replaced, *made.outranking)
        left = newly_hidden(self.store, newest, counted)
        is_hidden = sum(len(one.rows) for one in left) < sum(len(one.rows) for one in united(counted).values())
        return is_hidden or any(one.rows for one in healing(made.base, newest))


def complete_here(store: RetriedStore, sources: Sequence[Source], plan: PartialPlan) -> Written:
    """What the three tasks do, in this process."""
    apart = store.apart()
    keys = sorted(LocateRowsTask(plan=plan).within(apart, sources), key=lambda parcel: parcel.file)
    parcels = sorted([*ReadOldTask(plan=plan).within(apart, keys), *head_parcels(sources)], key=lambda parcel: parcel.file)
    return collect(pa.Table.from_batches(CompleteTask(plan=plan).within(apart, parcels), schema=RESULT_SCHEMA))


def _abandon(store: RetriedStore, written: Written) -> None:
    """No version names what a lost round wrote, or ever will. A store that does not answer leaves it to a clean."""
    try:
        store.delete([*(info.path for info in infos_written(written)), *map(path_of, written.runs)])
    except NeedlefishError:
        return
