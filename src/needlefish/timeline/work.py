"""Work on the timeline: begin or claim, keep the heart beating, and end in exactly one entry.

Only the holder of the newest claim can commit. A process that was taken for dead wakes up with an older claim, or with none, and
is refused by the log, at the last moment as at the first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from needlefish.errors import ConflictError, FencedError, NeedlefishError, NotFoundError
from needlefish.model.instant import AttemptId, Claim, Instant, InstantId, InstantStep
from needlefish.model.log import Action, TableState
from needlefish.runtime import Runtime
from needlefish.store import Store
from needlefish.timeline.heartbeat import Heartbeat, this_process
from needlefish.timeline.log import Log, Proposal, Propose
from needlefish.version import WRITER

# Of what went wrong, in the log: enough to know it again.
_REASON_CHARACTERS = 200

# Looks at the state that a claim would follow; raises ConflictError where it must not be.
Admit = Callable[[TableState], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The first entry of an instant that is claimed as it is requested: a writer's, a rollback's, a clean's."""

    action: Action
    target: InstantId | None = None
    reason: str | None = None
    # Of a clean: the oldest version that stays readable, said of the state that the entry follows.
    oldest: Callable[[TableState], int] | None = None

    @property
    def is_rollback(self) -> bool:
        """Some of what it undoes may be gone when it fails, so that it can only be finished, by whoever comes next."""
        return self.target is not None


@dataclass(kw_only=True)
class Work:
    """An instant that this process executes. `runtime` makes ids that carry the attempt."""

    store: Store
    instant: InstantId
    claim: Claim
    heartbeat: Heartbeat
    runtime: Runtime
    state: TableState
    # An entry of this work has ended the instant.
    ended: bool = False

    def since(self, state: TableState) -> TableState:
        """The version to stand on: the one that the claim made, if nothing but the claim came after what the caller looked at.

        The commit then finds nothing in between, and need not read the claim again to see that.
        """
        return self.state if self.state.version == state.version + 1 else state

    def check(self, newest: TableState) -> Instant:
        """The instant, if this work may still end it."""
        found = newest.instant(self.instant)
        if found is None:
            raise FencedError(
                f"instant {self.instant} was rolled back by another worker at or before version {newest.version}; stop, nothing of it was committed"
            )
        check_held(found, self.claim.attempt)
        return found

    def complete(self, newest: TableState, proposal: Proposal) -> Proposal:
        """The entry that ends the instant: what it made becomes true."""
        self.heartbeat.check()
        self.check(newest)
        return replace(proposal, instant=InstantStep(id=self.instant, step="completed", claim=self.claim))

    def commit(self, base: TableState, propose: Propose) -> TableState:
        """Appends the entry that ends the instant, unless nothing is proposed."""

        def ending(newest: TableState | None) -> Proposal | None:
            proposal = propose(newest)
            assert newest is not None, "the log of an open table never becomes empty"
            return None if proposal is None else self.complete(newest, proposal)

        self.state = Log(self.store, WRITER, self.runtime).append(base, ending)
        self.ended = self.state.instant(self.instant) is None
        return self.state

    def end(self, reason: str) -> TableState:
        """Ends the instant without anything: what it left behind is nobody's, and a clean removes it."""

        def propose(newest: TableState | None) -> Proposal | None:
            assert newest is not None, "the log of an open table never becomes empty"
            found = newest.instant(self.instant)
            if found is None or found.claim != self.claim or found.undone_by is not None:
                return None
            step = InstantStep(id=self.instant, step="rolled_back", claim=self.claim, reason=reason)
            return Proposal(action="rollback", instant=step)

        self.state = Log(self.store, WRITER, self.runtime).append(self.state, propose)
        self.ended = True
        return self.state


@contextmanager
def working(store: Store, state: TableState, start: Start, runtime: Runtime, admit: Admit | None = None) -> Iterator[Work]:
    """Begins an instant that needs no plan; `state` is the version that it reads.

    Whatever ends the block without a commit ends the instant too. A killed process leaves it to a clean.
    """
    attempt = AttemptId(runtime.new_owner())

    def propose(newest: TableState | None) -> Proposal:
        assert newest is not None, "the log of an open table never becomes empty"
        check_readable(store, state.version, newest)
        if admit is not None:
            admit(newest)
        return first_entry(attempt, start, state.version, newest)

    with held(store, state, InstantId(attempt), attempt, propose, runtime) as work, ending(work, gives_up=not start.is_rollback):
        yield work


def first_entry(attempt: AttemptId, start: Start, base: int, newest: TableState) -> Proposal:
    """What begins an instant that needs no plan, under the name of its only attempt."""
    claim = Claim(epoch=1, attempt=attempt, owner=this_process(), base=base)
    step = InstantStep(id=InstantId(attempt), step="inflight", action=start.action, claim=claim, target=start.target, reason=start.reason)
    return Proposal(action="claim", instant=step, oldest=None if start.oldest is None else start.oldest(newest))


@contextmanager
def ending(work: Work, *, gives_up: bool = True) -> Iterator[Work]:
    """Ends the instant with the block, if nothing in it has; after an error only what may be given up."""
    try:
        yield work
    except BaseException as error:
        if not work.ended and gives_up:
            quietly_end(work, f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS])
        raise
    if not work.ended:
        work.end("nothing to do")


@contextmanager
def claimed(store: Store, state: TableState, instant: InstantId, runtime: Runtime, admit: Admit | None = None) -> Iterator[Work]:
    """Claims an instant that was requested before, or whose claim is dead: `admit` must see to that."""
    attempt = AttemptId(runtime.new_owner())

    def propose(newest: TableState | None) -> Proposal:
        assert newest is not None, "the log of an open table never becomes empty"
        found = newest.instant(instant)
        if found is None:
            raise NotFoundError(
                f"instant {instant} is over: it was completed or rolled back at or before version {newest.version}; see history"
            )
        if found.undone_by is not None or found.cancelled:
            raise ConflictError(f"instant {instant} was cancelled or is being rolled back; it cannot be executed any more")
        if admit is not None:
            admit(newest)
        claim = Claim(epoch=found.epoch + 1, attempt=attempt, owner=this_process(), base=newest.version)
        return Proposal(action="claim", instant=InstantStep(id=instant, step="inflight", claim=claim))

    with held(store, state, instant, attempt, propose, runtime) as work:
        yield work


def check_readable(store: Store, version: int, newest: TableState) -> None:
    """What an old version needs may be gone."""
    if version < newest.oldest:
        raise ConflictError(f"{store.uri}: version {version} was cleaned (the oldest is {newest.oldest}); refresh and repeat")


def check_held(found: Instant, attempt: AttemptId) -> None:
    """Refuses an attempt that may not end the instant any more."""
    if found.claim is None or found.claim.attempt != attempt:
        raise FencedError(
            f"instant {found.id} was taken over by {found.claim.owner if found.claim else 'a rollback'}; stop, nothing of it was committed here"
        )
    if found.undone_by is not None:
        raise FencedError(f"instant {found.id} is being rolled back; stop, nothing of it was committed")
    if found.cancelled:
        raise FencedError(f"instant {found.id} was cancelled; stop, nothing of it was committed")


@contextmanager
def held(store: Store, state: TableState, instant: InstantId, attempt: AttemptId, propose: Propose, runtime: Runtime) -> Iterator[Work]:
    """The heart beats before the claim and until the block ends. What is claimed already needs no proposal."""
    owned = runtime.owned(attempt)
    heartbeat = Heartbeat(store, attempt, state.definition.properties.heartbeat_seconds, runtime)
    heartbeat.start()
    try:
        after = Log(store, WRITER, owned).append(state, propose)
        found = after.instant(instant)
        assert found is not None, "an instant that was just claimed is in the state after it"
        assert found.claim is not None, "and has the claim"
        yield Work(store=store, instant=instant, claim=found.claim, heartbeat=heartbeat, runtime=owned, state=after)
    finally:
        heartbeat.stop()


def quietly_end(work: Work, reason: str) -> TableState:
    """The same where an error is on its way already, which must not be hidden by another."""
    try:
        return work.end(reason)
    except NeedlefishError:
        return work.state


def commit(store: Store, base: TableState, propose: Propose, runtime: Runtime, work: Work | None = None) -> TableState:
    """Appends one entry, which ends `work` if there is one."""
    return Log(store, WRITER, runtime).append(base, propose) if work is None else work.commit(base, propose)
