"""Appending: read, validate, conditional put; whoever loses re-validates against what came first and tries again."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from needlefish.errors import AlreadyExistsError, CommitUnknownError, ConflictError, UnavailableError
from needlefish.format.log_entry import encode_entry, log_path
from needlefish.model.definition import TableDefinition
from needlefish.model.instant import InstantStep
from needlefish.model.log import FORMAT, STEPS, Action, Batch, LogEntry, RunId, RunRef, TableState, Totals
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store
from needlefish.timeline.checkpoint import write_checkpoints
from needlefish.timeline.fold import fold
from needlefish.timeline.replay import catch_up, read_entry

# Every lost race means that somebody else committed, so this is a bound on bad luck, not on contention.
_MOST_RACES = 1_000
# A pause lasts twice as long as the lost attempt took, times the losses so far: what is long for a disk is short for S3.
# Of 1, 2 and 4, two had eight writers commit with the fewest requests on a disk and nearly the fewest on S3.
_ATTEMPTS_PER_PAUSE = 2
_SHORTEST_PAUSE_SECONDS = 0.002
_LONGEST_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a writer wants to become true."""

    action: Action
    definition: TableDefinition | None = None
    runs_added: tuple[RunRef, ...] = ()
    runs_removed: tuple[RunId, ...] = ()
    added: Totals = field(default_factory=Totals)
    batch: Batch | None = None
    prev_max: int | None = None
    instant: InstantStep | None = None
    oldest: int | None = None


# Looks at the state the entry would follow and returns the proposal, None if nothing is left to do there, or raises
# ConflictError.
Propose = Callable[[TableState | None], Proposal | None]


class Log:
    """The log of one table, for one writer."""

    def __init__(self, store: Store, writer: str, runtime: Runtime = SYSTEM) -> None:
        self._store = store
        self._writer = writer
        self._runtime = runtime

    def append(self, state: TableState | None, propose: Propose) -> TableState:
        """Appends one entry after whatever is newest and returns the state with it; `state` is what the caller knows.

        Where nothing is proposed, nothing is put, and the newest state is returned.
        """
        token = self._runtime.new_id()
        for losses in range(1, _MOST_RACES + 1):
            started = self._runtime.clock.monotonic()
            state = catch_up(self._store, state)
            proposal = propose(state)
            if proposal is None:
                assert state is not None, "only a table that exists can have it all already"
                return state
            entry = self._entry(state, proposal, token)
            # Before the put: an entry that cannot be folded would make the table unreadable.
            after = fold(state, entry)
            winner = self._put(entry)
            if winner.token == token:
                write_checkpoints(self._store, after, hint=entry.action not in STEPS)
                return after
            state = fold(state, winner)
            self._pause(self._runtime.clock.monotonic() - started, losses)
        raise ConflictError(f"lost {_MOST_RACES} races for the next version of {self._store.uri}; retry when fewer writers commit at once")

    def _pause(self, attempt_seconds: float, losses: int) -> None:
        longest = max(attempt_seconds * _ATTEMPTS_PER_PAUSE, _SHORTEST_PAUSE_SECONDS) * losses
        self._runtime.clock.sleep(self._runtime.jitter(min(longest, _LONGEST_PAUSE_SECONDS)))

    def _entry(self, state: TableState | None, proposal: Proposal, token: str) -> LogEntry:
        now = self._runtime.clock.now_ms()
        return LogEntry(
            format=FORMAT,
            version=state.version + 1 if state else 0,
            token=token,
            # Later versions never have earlier times, whatever the writers' clocks say: opening at a time relies on it.
            timestamp_ms=max(now, state.timestamp_ms + 1) if state else now,
            writer=self._writer,
            **{found.name: getattr(proposal, found.name) for found in fields(Proposal)},
        )

    def _put(self, entry: LogEntry) -> LogEntry:
        """The entry that has the number now: this one, or the one of the writer who came first.

        A crash before the put leaves orphan runs, after it a commit that nobody was told of; never anything between.
        """
        try:
            self._store.put_if_absent(log_path(entry.version), encode_entry(entry))
            return entry
        except (AlreadyExistsError, UnavailableError) as error:
            # What exists already may be our own: a put whose answer was lost and that was tried again.
            return self._read_back(entry, error)

    def _read_back(self, entry: LogEntry, cause: AlreadyExistsError | UnavailableError) -> LogEntry:
        """The put failed for good: the log itself says whether it landed, if it can be read."""
        try:
            found = read_entry(self._store, entry.version)
        except UnavailableError:
            found = None
        if found is None:
            # Not there yet, but a request may still be on its way: only the caller can decide to wait.
            raise CommitUnknownError(
                f"{log_path(entry.version)}: the store did not say whether the commit with token {entry.token} landed; look for that token in the history before retrying"
            ) from cause
        return found
