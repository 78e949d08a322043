"""An upsert or delete from rows to commit, whoever does the work: Spark jobs, or this process.

First what is new is written, then what it hides is found, then both become true in one entry. A crash before the entry leaves
orphans, which a clean removes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from needlefish.errors import NeedlefishError
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import Action, Batch, TableState
from needlefish.model.schema import Field
from needlefish.runtime import Runtime
from needlefish.store import RetriedStore
from needlefish.table.commit import totals_of
from needlefish.table.planned import check_unplanned, planned_files
from needlefish.table.point.runs import indexed_keys
from needlefish.table.row_changes import Committed, RowChanges, commit_changes, is_repeated
from needlefish.table.task import Written
from needlefish.table.upsert.compare import compare_here
from needlefish.table.upsert.healing import Healing
from needlefish.table.upsert.key_file import WORK_PREFIX
from needlefish.table.upsert.marks import Marks
from needlefish.table.upsert.plan import ChangePlan, ComparePlan
from needlefish.table.upsert.result import DeleteResult, UpsertResult
from needlefish.table.upsert.sources import Source
from needlefish.table.upsert.write import WriteNote, note_of
from needlefish.timeline import Start, Work, working

# Up to so many keys are compared in this process with what others have just committed: starting jobs would take longer.
FEW_KEYS = 50_000


class Comparing(Protocol):
    """Who compares."""

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks:
        """Runs the tasks that find what the sources' keys hide."""
        ...


class Jobs(Comparing, Protocol):
    """Who does the work."""

    def write(self, plan: ChangePlan) -> Written:
        """Runs the task that writes over all incoming rows, sorted and routed as it wants them."""
        ...

    def keys(self, plan: ChangePlan) -> Written:
        """Puts the keys of all incoming rows, and nothing else of them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """How incoming rows are to be taken. `order_by` is a column of the table, `deleted_by` one of the rows alone."""

    order_by: Field | None = None
    batch: Batch | None = None
    deleted_by: str | None = None
    # Columns that the rows lack keep the values that they have.
    only_present: bool = False


class Stages:
    """Seconds of every stage, in their order."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self._started = runtime.clock.monotonic()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = self._clock.monotonic()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + self._clock.monotonic() - started

    @property
    def total(self) -> float:
        return self._clock.monotonic() - self._started


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What the three steps of a change gave."""

    written: Written
    notes: tuple[WriteNote, ...]
    marks: Marks
    committed: Committed
    healed: int
    requests: int
    stages: Stages

    @property
    def keys(self) -> int:
        """Keys that were to be deleted."""
        return sum(note.deletes for note in self.notes)

    @property
    def duplicates(self) -> int:
        return sum(note.duplicates for note in self.notes)


def upsert_rows(
    store: RetriedStore, state: TableState, options: ChangeOptions, jobs: Jobs, runtime: Runtime
) -> tuple[TableState, UpsertResult]:
    """Writes all rows and hides those that they replace, as one version."""
    if is_repeated(state, options.batch):
        return state, UpsertResult(version=state.version, repeated=True)
    change = _change("upsert", store, state, options, jobs, runtime)
    totals, counts = totals_of(infos_written(change.written)), change.marks.counted(change.committed.newly)
    return change.committed.state, UpsertResult(
        version=change.committed.state.version,
        inserted=0 if change.committed.repeated else totals.rows - counts.late - counts.replaced,
        replaced=counts.replaced,
        late=counts.late,
        deleted=counts.deleted,
        duplicates=change.duplicates,
        repeated=change.committed.repeated,
        files=totals.files,
        bytes=totals.bytes,
        requests=change.requests,
        healed=change.healed,
        seconds=change.stages.total,
        stages=change.stages.seconds,
    )


def delete_rows(
    store: RetriedStore, state: TableState, options: ChangeOptions, jobs: Jobs, runtime: Runtime
) -> tuple[TableState, DeleteResult]:
    """Hides the rows of all keys. No data file is written."""
    if is_repeated(state, options.batch):
        return state, DeleteResult(version=state.version, repeated=True)
    change = _change("delete", store, state, options, jobs, runtime)
    return change.committed.state, DeleteResult(
        version=change.committed.state.version,
        deleted=change.committed.skipped,
        absent=0 if change.committed.repeated else max(0, change.keys - change.committed.skipped),
        duplicates=change.duplicates,
        repeated=change.committed.repeated,
        requests=change.requests,
        healed=change.healed,
        seconds=change.stages.total,
        stages=change.stages.seconds,
    )


def _change(action: Action, store: RetriedStore, state: TableState, options: ChangeOptions, jobs: Jobs, runtime: Runtime) -> Change:
    with working(store, state, Start(action=action), runtime) as work:
        done = _worked(action, work.since(state), options, jobs, _Worker(store=store, work=work))
    # What followed the commit, if nothing had to be committed.
    return replace(done, committed=replace(done.committed, state=work.state))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Worker:
    """The instant, and the store that counts its requests."""

    store: RetriedStore
    work: Work


def _worked(action: Action, state: TableState, options: ChangeOptions, jobs: Jobs, worker: _Worker) -> Change:
    store, work, runtime = worker.store, worker.work, worker.work.runtime
    plan = plan_change(store, state, options, work)
    before, stages = store.meter.snapshot(), Stages(runtime)
    try:
        if action == "upsert":
            check_keys(store, work.state, plan, jobs)
        work.heartbeat.say("write")
        with stages.timed("write"):
            written = jobs.write(plan)
        notes = tuple(note_of(note) for note in written.notes)
        sources = [
            *(Source(written=info) for info in infos_written(written)),
            *(Source(deleted=file) for note in notes for file in note.key_files),
        ]
        compare = ComparePlan(state=state, store=store.config, order_by=plan.order_by)
        work.heartbeat.say("compare")
        with stages.timed("compare"):
            marks = jobs.compare(sources, compare) if sources and state.runs_of("files") else Marks()
        heal = healing_for(store, sources, compare, jobs, marks.unsure)
        changes = RowChanges(action=action, written=written, skips=marks.sure, batch=options.batch)
        work.heartbeat.say("commit")
        with stages.timed("commit"):
            done = commit_changes(store, state, changes, heal=heal, runtime=runtime, work=work)
    finally:
        remove_work(store, plan.work)
    found = marks.plus(heal.marks)
    here = (store.meter.snapshot() - before).requests
    requests = here + found.requests + sum(note.requests for note in notes)
    return Change(written=written, notes=notes, marks=found, committed=done, healed=heal.rounds, requests=requests, stages=stages)


def check_keys(store: RetriedStore, newest: TableState, plan: ChangePlan, jobs: Jobs) -> None:
    """Refuses keys whose rows an immutable plan is going to read, before anything is written for them.

    Costs a pass over the keys of the frame, and only while there is such a plan.
    """
    if not planned_files(store, newest) or not newest.runs_of("files"):
        return
    notes = [note_of(note) for note in jobs.keys(plan).notes]
    sources = [Source(deleted=file) for note in notes for file in note.key_files]
    marks = jobs.compare(sources, ComparePlan(state=newest, store=store.config)) if sources else Marks()
    check_unplanned(store, newest, (mark.skips.key for mark in marks.marks))


def plan_change(store: RetriedStore, state: TableState, options: ChangeOptions, work: Work) -> ChangePlan:
    return ChangePlan(
        definition=state.definition,
        store=store.config,
        version=state.version,
        work=WORK_PREFIX + work.runtime.new_id(),
        order_by=None if options.order_by is None else options.order_by.id,
        deleted_by=options.deleted_by,
        indexed_keys=indexed_keys(state),
        owner=work.claim.attempt,
    )


def infos_written(written: Written) -> list[ChunksetInfo]:
    return [entry.info for entry in written.entries]


def healing_for(store: RetriedStore, sources: Sequence[Source], plan: ComparePlan, jobs: Comparing, unsure: Marks) -> Healing:
    """For a change whose keys come from `sources`: chunksets of other partitions do not concern it, unless keys are global."""
    partitions = {partition for source in sources for partition in source.partitions}
    anywhere = plan.state.definition.properties.global_keys
    few = sum(source.rows for source in sources) <= FEW_KEYS

    def compare(added: TableState) -> Marks:
        within = replace(plan, state=added)
        return compare_here(store, sources, within) if few else jobs.compare(sources, within)

    return Healing(store, plan.state, lambda info: anywhere or info.partition in partitions, compare, unsure)


def remove_work(store: RetriedStore, folder: str) -> None:
    """What tasks handed each other. A change stands or fails without it, so that a store that does not answer fails nothing
    here: a clean removes what is left."""
    try:
        store.delete([found.path for found in store.list(folder)])
    except NeedlefishError:
        return
