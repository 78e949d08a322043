"""Work that several processes do as one attempt: whichever comes first begins the instant, one of them ends it.

An attempt begins once. Whoever comes when it is over is refused, whatever became of it: begun again after its commit, it would
be rolled back one day, and the rollback would delete what the commit made true.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from needlefish.errors import FencedError
from needlefish.model.definition import Properties
from needlefish.model.instant import AttemptId, InstantId
from needlefish.model.log import Action, TableState
from needlefish.runtime import Runtime
from needlefish.store import Store
from needlefish.timeline.heartbeat import Heartbeat
from needlefish.timeline.log import Log, Proposal, Propose
from needlefish.timeline.replay import catch_up, read_entries, read_newest
from needlefish.timeline.work import Start, Work, check_held, check_readable, ending, first_entry, held
from needlefish.version import WRITER


@dataclass(frozen=True, slots=True, kw_only=True)
class Detached:
    """An attempt that travels between processes; its instant has the same id."""

    attempt: AttemptId
    action: Action
    # The version that the attempt reads. No entry up to it may speak of the attempt.
    base: int

    @property
    def instant(self) -> InstantId:
        return InstantId(self.attempt)


def ensure_claimed(store: Store, state: TableState, detached: Detached, runtime: Runtime) -> TableState:
    """Begins the instant, unless another process has, and returns the state that has it."""
    heartbeat = _heartbeat(store, detached, state.definition.properties, runtime)
    heartbeat.start()
    try:
        return _begun(store, state, detached, runtime)
    finally:
        heartbeat.leave()


@contextmanager
def beating(store: Store, detached: Detached, properties: Properties, runtime: Runtime) -> Iterator[Heartbeat]:
    """Around what one process does of the work: objects may be put as soon as it is entered.

    The heartbeat stays at the end, and so does the instant, even after an error: others work on, and somebody may try again.
    """
    heartbeat = _heartbeat(store, detached, properties, runtime)
    heartbeat.start()
    try:
        newest = read_newest(store)
        found = newest.instant(detached.instant)
        # Most come when it is there already, and need not look for the end of the log a second time.
        if found is None:
            _begun(store, newest, detached, runtime)
        else:
            check_held(found, detached.attempt)
        yield heartbeat
    finally:
        heartbeat.leave()


@contextmanager
def resumed(store: Store, state: TableState, detached: Detached, runtime: Runtime) -> Iterator[Work]:
    """For the process that commits what the others did; what nobody has begun it begins.

    As with `working`, whatever ends the block without a commit ends the instant too.
    """
    with held(store, state, detached.instant, detached.attempt, _begin(store, detached), runtime) as work, ending(work):
        yield work


def abandon(store: Store, state: TableState, detached: Detached, reason: str, runtime: Runtime) -> TableState:
    """Ends the instant without anything, if it was begun and is not over. What was put is nobody's, and a clean removes it."""
    newest = catch_up(store, state) or state
    found = newest.instant(detached.instant)
    if found is None or found.claim is None or found.claim.attempt != detached.attempt:
        return newest
    heartbeat = _heartbeat(store, detached, newest.definition.properties, runtime)
    owned = runtime.owned(detached.attempt)
    work = Work(store=store, instant=found.id, claim=found.claim, heartbeat=heartbeat, runtime=owned, state=newest)
    work.end(reason)
    heartbeat.stop()
    return work.state


def _heartbeat(store: Store, detached: Detached, properties: Properties, runtime: Runtime) -> Heartbeat:
    return Heartbeat(store, detached.attempt, properties.heartbeat_seconds, runtime)


def _begun(store: Store, state: TableState, detached: Detached, runtime: Runtime) -> TableState:
    return Log(store, WRITER, runtime.owned(detached.attempt)).append(state, _begin(store, detached))


def _begin(store: Store, detached: Detached) -> Propose:
    """Of several that begin at once one has its entry; the others find it there, and propose nothing."""

    def propose(newest: TableState | None) -> Proposal | None:
        assert newest is not None, "the log of an open table never becomes empty"
        found = newest.instant(detached.instant)
        if found is not None:
            check_held(found, detached.attempt)
            return None
        check_readable(store, detached.base, newest)
        _check_never_begun(store, detached, newest)
        return first_entry(detached.attempt, Start(action=detached.action), detached.base, newest)

    return propose


def _check_never_begun(store: Store, detached: Detached, newest: TableState) -> None:
    """Reads what was committed since the attempt was drawn, which only those do who come first or too late."""
    for entry in read_entries(store, detached.base + 1, newest.version):
        if entry.instant is not None and entry.instant.id == detached.instant:
            raise FencedError(
                f"instant {detached.instant} is over since version {entry.version}; stop, nothing more of it can be committed"
            )
