"""Executing a plan: claim, write, commit; at most one worker completes it, whatever happens to the others.

An attempt that fails is rolled back. An immutable plan then stands as if nobody had tried; a cancellable one is over.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from needlefish.errors import ConflictError, FencedError, JobFailedError, NeedlefishError, NotFoundError
from needlefish.format.log_entry import plan_path
from needlefish.model.instant import Instant, InstantId, PlanSummary
from needlefish.model.log import LogEntry, TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.dead import is_dead
from needlefish.services.rewrite import commit_rewrite
from needlefish.services.rewrite.plan import RewritePlan, decode_plan
from needlefish.services.rollback import roll_back
from needlefish.store import RetriedStore, Store
from needlefish.table.planned import check_unplanned
from needlefish.table.task import Written
from needlefish.timeline import Proposal, Work, catch_up
from needlefish.timeline.heartbeat import read_pulses
from needlefish.timeline.replay import read_entries
from needlefish.timeline.work import claimed

# Does the work of a plan as a state has its inputs: a Spark job, or this process. Ids come from the runtime.
Write = Callable[[TableState, RewritePlan, Runtime], Written]


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """Who does the work, and how to make it stop before its end."""

    write: Write
    interrupt: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceResult:
    """What a completed plan did; figures are of the files that went and those that came."""

    plan: str
    action: str
    version: int
    files_before: int
    files: int
    rows: int
    bytes_before: int
    bytes: int
    # Rows that were hidden and are gone now.
    folded: int
    seconds: float
    # Another worker had completed it.
    repeated: bool = False


def execute(
    store: RetriedStore, state: TableState, instant: InstantId, worker: Worker, runtime: Runtime = SYSTEM
) -> tuple[TableState, ServiceResult]:
    """Executes a plan that was scheduled, or returns what came of it if another worker was first."""
    started = runtime.clock.monotonic()
    state = catch_up(store, state) or state
    found = state.instant(instant)
    if found is None:
        return state, _ended(store, state, instant)
    state = _freed(store, state, found, runtime)
    begun = False
    try:
        with claimed(store, state, instant, runtime, _admit(store, instant, runtime)) as work:
            begun = True
            _rewrite(store, work, worker)
    except NotFoundError:
        if begun:
            raise
        # Over between the look and the claim.
        state = catch_up(store, state) or state
        return state, _ended(store, state, instant)
    # The plan is over, and so is its object's use; a crash before this leaves it to a clean.
    with suppress(NeedlefishError):
        store.delete([plan_path(instant)])
    entry = next(iter(read_entries(store, work.state.version, work.state.version)))
    return work.state, _result(entry, found.plan, runtime.clock.monotonic() - started)


def _freed(store: Store, state: TableState, found: Instant, runtime: Runtime) -> TableState:
    """A dead attempt of an immutable plan is rolled back first, by whoever comes first."""
    if found.retries and (found.claim is not None or found.undone_by is not None):
        return roll_back(store, state, found.id, runtime, reason="its worker is dead")
    return state


def _admit(store: Store, instant: InstantId, runtime: Runtime) -> Callable[[TableState], None]:
    def admit(newest: TableState) -> None:
        found = newest.instant(instant)
        assert found is not None, "the claim itself looks whether the instant is there"
        if found.claim is not None and not is_dead(store, newest, found, read_pulses(store, newest.definition.properties, runtime)):
            raise ConflictError(f"{store.uri}: plan {instant} is executed by {found.claim.owner}; wait for it")
        if found.claim is not None:
            raise ConflictError(f"{store.uri}: an attempt at plan {instant} by {found.claim.owner} died; roll it back first (clean does)")
        if not found.retries and found.epoch:
            raise ConflictError(f"{store.uri}: plan {instant} is cancellable and was tried before; schedule a new one")

    return admit


@contextmanager
def _watched(work: Work, worker: Worker) -> Iterator[None]:
    """Looks now and then whether the work is in vain: a plan that is cancelled or rolled back stops, rather than find out at its end."""
    seen = work.state

    def watch() -> None:
        nonlocal seen
        try:
            seen = catch_up(work.store, seen) or seen
            work.check(seen)
        except FencedError:
            worker.interrupt()
        except NeedlefishError:
            # The log could not be read this time; the commit looks again in any case.
            return

    ticker = work.runtime.ticker(work.state.definition.properties.heartbeat_seconds, watch)
    ticker.start()
    try:
        yield
    finally:
        ticker.stop()


def _rewrite(store: RetriedStore, work: Work, worker: Worker) -> None:
    """Whatever goes wrong, the attempt is undone while its heart still beats: nobody else has to wait for it to expire."""
    try:
        path = plan_path(work.instant)
        plan = decode_plan(store.get(path), path)
        work.heartbeat.say("write", 0, len(plan.groups))
        with _watched(work, worker):
            written = worker.write(work.state, plan, work.runtime)
        # Nothing is put for a plan that is cancelled already.
        work.check(catch_up(store, work.state) or work.state)
        work.heartbeat.say("commit", len(plan.groups), len(plan.groups))

        def complete(newest: TableState, proposal: Proposal) -> Proposal:
            check_unplanned(store, newest, plan.inputs, but=work.instant)
            return proposal

        commit_rewrite(store, work.state, plan, written, complete=complete, runtime=work.runtime, work=work)
    except (Exception, KeyboardInterrupt) as error:
        why = _why(store, work, error)
        _undo(store, work, f"{type(error).__name__}: {error}")
        if why is not error:
            raise why from error
        raise


def _why(store: Store, work: Work, error: BaseException) -> BaseException:
    """An interrupted job says only that it failed; the log may say why."""
    if isinstance(error, JobFailedError):
        try:
            work.check(catch_up(store, work.state) or work.state)
        except NeedlefishError as found:
            return found if isinstance(found, FencedError) else error
    return error


def _undo(store: Store, work: Work, reason: str) -> None:
    """Of this very attempt. An error is on its way already, which another one must not hide."""

    def admit(newest: TableState, target: Instant) -> None:
        if target.claim != work.claim:
            raise ConflictError(f"instant {target.id} has another claim by now")

    try:
        roll_back(store, work.state, work.instant, work.runtime, reason=reason[:200], admit=admit)
    except NeedlefishError:
        # The heartbeat stops with the work, so that a clean or the next worker does it.
        return


def _ended(store: Store, state: TableState, instant: InstantId) -> ServiceResult:
    """What the log says of a plan that is over."""
    completed: LogEntry | None = None
    for entry in read_entries(store, state.oldest, state.version):
        step = entry.instant
        if step is None or instant not in (step.id, step.target):
            continue
        if step.step == "completed":
            completed = entry
        elif step.step == "requested" and completed is not None:
            return _result(completed, step.plan, 0.0, repeated=True)
        elif completed is None:
            break
    if completed is not None:
        return _result(completed, None, 0.0, repeated=True)
    raise ConflictError(
        f"{store.uri}: plan {instant!r} was rolled back or never requested; schedule a new one (plans() shows those that wait)"
    )


def _result(entry: LogEntry, before: PlanSummary | None, seconds: float, *, repeated: bool = False) -> ServiceResult:
    assert entry.instant is not None, "the entry that ends a plan names it"
    files, size = (before.files, before.bytes) if before is not None else (0, 0)
    return ServiceResult(
        plan=entry.instant.id,
        action=entry.action,
        version=entry.version,
        files_before=files,
        files=files + entry.added.files,
        rows=(before.rows if before is not None else 0) + entry.added.rows,
        bytes_before=size,
        bytes=size + entry.added.bytes,
        folded=-entry.added.skipped,
        seconds=seconds,
        repeated=repeated,
    )
