"""One table in the care of a loop: what is due, in the order in which it matters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict

from needlefish.errors import ConflictError, FencedError, NeedlefishError, UnavailableError
from needlefish.model.instant import Instant, InstantId
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.clean import clean
from needlefish.services.execute import Worker, execute
from needlefish.services.merge import plan_merges
from needlefish.services.planning import plan_rewrite
from needlefish.services.schedule import schedule
from needlefish.services.stopping import Interruption, Stop
from needlefish.services.tend.appetite import Appetite
from needlefish.services.tend.event import Audience, Event, Outcome
from needlefish.services.tend.options import TendOptions
from needlefish.services.upkeep import merge_runs, roll_back_dead
from needlefish.store import RetriedStore
from needlefish.store.guarded import GuardedStore
from needlefish.table.snapshot import RunReaders, Snapshot
from needlefish.timeline import catch_up, read_newest

# After failures a table is left alone, twice as long each time.
_LONGEST_WAIT_SECONDS = 900.0

# Of a clean's result; the paths of all that went would be a long line.
_CLEANED = ("version", "oldest", "rolled_back", "objects", "bytes", "requests", "seconds")

# Who executes one plan of a table.
WorkerFor = Callable[[RetriedStore], Worker]


class TendedTable:
    """Remembers what it has seen, so that a table in which nothing happens costs two small requests a round."""

    def __init__(
        self, store: RetriedStore, options: TendOptions, worker_for: WorkerFor, audience: Audience, stop: Stop, runtime: Runtime = SYSTEM
    ) -> None:
        self.store = store
        self._options = options
        self._worker_for = worker_for
        self._audience = audience
        self._stop = stop
        self._runtime = runtime
        self._state: TableState | None = None
        self._readers = RunReaders()
        # By service: what the table was like when there was nothing for it to do.
        self._settled: dict[str, object] = {}
        self._appetite = Appetite()
        self._cleaned: float | None = None
        self._failures = 0
        self._not_before = 0.0
        self.failure: BaseException | None = None

    @property
    def uri(self) -> str:
        return self.store.uri

    @property
    def state(self) -> TableState:
        assert self._state is not None, "a round begins with the newest state"
        return self._state

    def tend(self) -> None:
        """One round. Raises nothing."""
        if self._runtime.clock.monotonic() < self._not_before:
            return
        try:
            self._state = read_newest(self.store) if self._state is None else catch_up(self.store, self._state) or self._state
            for step in (self._roll_back, self._execute_waiting, self._compact, self._cluster, self._merge, self._clean):
                if not self._stop.asked:
                    step()
            self._failures = 0
        except UnavailableError as error:
            self._back_off("store", "away", error)
        # Whatever is wrong with one table, others still need care.
        except Exception as error:  # noqa: BLE001
            self._back_off("table", "failed", error)

    def _back_off(self, action: str, outcome: Outcome, error: Exception) -> None:
        self.failure = error
        self._failures += 1
        wait = self._runtime.jitter(min(self._options.every_seconds * 2**self._failures, _LONGEST_WAIT_SECONDS))
        self._not_before = self._runtime.clock.monotonic() + wait
        self._tell(action, outcome, reason=_words(error), wait_seconds=wait)

    def _tell(self, action: str, outcome: Outcome, **more: object) -> None:
        self._audience.tell(Event(timestamp_ms=self._runtime.clock.now_ms(), table=self.uri, action=action, outcome=outcome, **more))  # type: ignore[arg-type]

    @contextmanager
    def _piece(self, action: str, what: str, interrupt: Callable[[], None]) -> Iterator[None]:
        """One thing that is done or not. That another worker or a writer was first is no failure."""
        try:
            with self._audience.doing(self.uri, what), self._stop.interrupting(interrupt):
                yield
        except NeedlefishError as error:
            if self._stop.is_overdue:
                self._tell(action, "undone", reason="stopped before its end")
            elif isinstance(error, ConflictError | FencedError):
                self._tell(action, "first", reason=str(error))
            else:
                raise
            self._state = catch_up(self.store, self.state) or self.state

    def _roll_back(self) -> None:
        if not self.state.instants:
            return
        # Never interrupted: a rollback that was begun can only be finished.
        with self._piece("rollback", "looking for dead workers", lambda: None):
            self._state, result = roll_back_dead(self.store, self.state, self._runtime)
            if result.rolled_back:
                self._tell("rollback", "done", facts=asdict(result))

    def _execute_waiting(self) -> None:
        """Immutable ones first: writers are refused until they are done."""
        waiting = sorted((found for found in self.state.instants if _waits(found)), key=lambda found: (not found.retries, found.requested))
        for found in waiting:
            if not self._stop.asked:
                self._execute(found)

    def _execute(self, found: Instant) -> bool:
        """Whether it came to its end here."""
        completed = []
        worker = self._worker_for(self.store)
        figures = "" if found.plan is None else f": {found.plan.files:,} files, {found.plan.rows:,} rows"
        with self._piece(found.action, f"{found.action}{figures}", worker.interrupt):
            self._state, result = execute(self.store, self.state, InstantId(found.id), worker, self._runtime)
            self._tell(found.action, "done", facts=asdict(result))
            completed.append(result)
        return bool(completed)

    def _compact(self) -> None:
        """Goes on while pieces complete, for as long as a round may take: where writers are quick, each piece is a small one."""
        until = self._runtime.clock.monotonic() + self._options.every_seconds
        while self._options.compact and self._rewrite("compaction", {}):
            if self._stop.asked or self._runtime.clock.monotonic() >= until:
                return

    def _cluster(self) -> None:
        if self._options.cluster_by:
            self._rewrite("clustering", {"by": list(self._options.cluster_by), "zorder": self._options.zorder})

    def _rewrite(self, kind: str, options: dict[str, object]) -> bool:
        """By policy, and cancellable: writers never wait for a loop. Whether it is done and something was left."""
        like = _files_of(self.state)
        if self._settled.get(kind) == like:
            return False
        planned: list[Instant] = []
        with self._piece(kind, f"planning a {kind}", lambda: None):
            snapshot = Snapshot(store=self.store, state=self.state, readers=self._readers)
            whole = plan_rewrite(snapshot, kind, options)
            part = self._appetite.bite(whole) if whole is not None and kind == "compaction" else None
            plan = whole if part is None else plan_rewrite(snapshot, kind, options | {"files": part})
            if plan is None:
                self._settled[kind] = like
                return False
            self._state, instant = schedule(self.store, self.state, plan, self._runtime)
            planned.append(instant)
        return any(self._executed(instant) and part is not None for instant in planned)

    def _executed(self, found: Instant) -> bool:
        done = self._execute(found)
        if done:
            self._appetite.was_completed()
        elif found.plan is not None:
            self._appetite.was_preempted(found.plan.files)
        return done

    def _merge(self) -> None:
        if not plan_merges(self.state):
            return
        interruption = Interruption()
        with self._piece("merge", "merging runs", interruption.interrupt):
            self._state, result = merge_runs(GuardedStore(self.store, interruption.guard), self.state, self._runtime)
            self._tell("merge", "done", facts=asdict(result))

    def _clean(self) -> None:
        """Also what no version retires: orphans, and what time alone has made old."""
        now = self._runtime.clock.monotonic()
        if not self._options.clean or (self._cleaned is not None and now - self._cleaned < self._options.clean_every_seconds):
            return
        self._cleaned = now
        interruption = Interruption()
        with self._piece("clean", "cleaning", interruption.interrupt):
            self._state, result = clean(GuardedStore(self.store, interruption.guard), self.state, runtime=self._runtime)
            if result.objects or result.rolled_back:
                self._tell("clean", "done", facts={name: getattr(result, name) for name in _CLEANED})


def _waits(found: Instant) -> bool:
    """A plan that anybody may execute."""
    is_free = found.claim is None and found.undone_by is None and not found.cancelled
    return found.plan is not None and is_free and (found.retries or not found.epoch)


def _files_of(state: TableState) -> object:
    """All that a plan depends on: the files, what is hidden of them, and what others have planned."""
    runs = tuple(run.id for run in state.runs if run.kind in ("files", "skips"))
    return runs, tuple(found.id for found in state.instants if found.plan is not None), state.definition


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, NeedlefishError) else f"{type(error).__name__}: {error}"
