"""A clean from beginning to end. The order is what makes it safe:

dead instants are rolled back; orphans are listed before the log is read; versions are declared unreadable by the claim, and only
then is removed what they needed, files before the runs that name them; the completion comes next, and old log entries go last.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from needlefish.errors import ConflictError, CorruptError, FencedError, NotFoundError
from needlefish.model.instant import Instant
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.clean.horizon import held_by, horizon, rivals
from needlefish.services.clean.needed import Needed
from needlefish.services.clean.options import CleanOptions, Rule, rule_of
from needlefish.services.clean.orphans import Search
from needlefish.services.clean.result import CleanResult, Removal, Tally
from needlefish.services.clean.retired import Retired, expired_files, old_runs, retired_between
from needlefish.services.clean.tail import old_entries, put_base, put_hint
from needlefish.services.dead import dead_instants
from needlefish.services.rollback import roll_back
from needlefish.store import RetriedStore, sweep_staging
from needlefish.timeline import Proposal, Start, Work, catch_up, working
from needlefish.timeline.heartbeat import store_time_ms
from needlefish.timeline.replay import folded_at

# Objects deleted at once, and how often another clean may come between.
_BATCH = 1_000
_MOST_ROUNDS = 5


def clean(
    store: RetriedStore, state: TableState, options: CleanOptions | None = None, runtime: Runtime = SYSTEM
) -> tuple[TableState, CleanResult]:
    """Removes what is not needed any more; the state after it, and what went. Nothing to do leaves no trace in the log."""
    tally = Tally()
    for rounds in range(_MOST_ROUNDS):
        state = catch_up(store, state) or state
        try:
            return _Clean(store=store, state=state, options=options or CleanOptions(), runtime=runtime, tally=tally).run()
        except (ConflictError, NotFoundError, CorruptError):
            # Where another clean came between, what was read was that clean's to remove: all is looked at anew.
            newest = catch_up(store, state) or state
            if newest.cleaned == state.cleaned or rounds == _MOST_ROUNDS - 1:
                raise
    raise AssertionError("the last round returns or raises")


class _HeldBackError(ConflictError):
    """Nothing can be made unreadable right now."""


@dataclass(kw_only=True)
class _Clean:
    """One attempt at a clean; `state` moves on with it."""

    store: RetriedStore
    state: TableState
    options: CleanOptions
    runtime: Runtime
    tally: Tally

    def run(self) -> tuple[TableState, CleanResult]:
        started, before = self.runtime.clock.monotonic(), self.store.meter.snapshot()
        dead = self._roll_back()
        rule = rule_of(self.options, self.state.definition.properties)
        now_ms = store_time_ms(self.store, self.runtime)
        oldest = horizon(self.store, self.state, rule, now_ms, dead={found.id for found in dead} if self.options.dry_run else ())
        retired = self._retired(oldest)
        if self.options.orphans:
            self._remove_orphans(rule, now_ms, retired, dead)
        oldest = self._expire(oldest, retired)
        self._trim(oldest, now_ms - rule.put_ms)
        self._sweep(now_ms - rule.put_ms)
        return self.state, CleanResult(
            version=self.state.version,
            oldest=oldest,
            dry_run=self.options.dry_run,
            rolled_back=tuple(_words(found) for found in dead),
            removed=self.tally.removed,
            paths=tuple(self.tally.paths),
            notes=tuple(self.tally.notes),
            requests=(self.store.meter.snapshot() - before).requests,
            seconds=self.runtime.clock.monotonic() - started,
        )

    def _roll_back(self) -> list[Instant]:
        dead = dead_instants(self.store, self.state, self.runtime)
        for found in () if self.options.dry_run else dead:
            try:
                self.state = roll_back(self.store, self.state, found.id, self.runtime, reason="dead when the table was cleaned")
            except (ConflictError, FencedError) as error:
                # Another worker is at it; what it holds back now the next clean removes.
                self.tally.notes.append(f"left to another worker: {error}")
        return dead

    def _retired(self, oldest: int) -> list[Retired]:
        """Since the last clean that came to its end: the entries of one that did not are still there."""
        # What is later than the horizon is needed, so that only a search for orphans wants to know it.
        until = self.state.version if self.options.orphans else oldest
        if until <= self.state.cleaned:
            return []
        return retired_between(self.store, folded_at(self.store, self.state.cleaned), until)

    def _remove_orphans(self, rule: Rule, now_ms: int, retired: list[Retired], dead: list[Instant]) -> None:
        attempts = frozenset(str(owner) for found in dead for owner in (found.id, found.claim.attempt if found.claim else found.id))
        try:
            needed = Needed(self.store, self.state, retired)
        except CorruptError as error:
            # Missing or unreadable index data never condemns a file.
            self.tally.notes.append(f"orphans were not looked for, since not all versions can tell their files: {error}")
            return
        search = Search(store=self.store, needed=needed, rule=rule, now_ms=now_ms, dead=attempts if self.options.dry_run else frozenset())
        for some in search.batches():
            self._remove(some)
        self.state = needed.state

    def _expire(self, oldest: int, retired: list[Retired]) -> int:
        """Makes versions before `oldest` unreadable and removes what only they needed; the version that came of it."""
        if oldest <= self.state.cleaned:
            return self.state.oldest
        if self.options.dry_run:
            self._remove_retired([one for one in retired if one.version <= oldest])
            return oldest
        planned = self.state

        def declared(newest: TableState) -> int:
            return max(newest.oldest, min(oldest, held_by(newest)))

        def admit(newest: TableState) -> None:
            for rival in rivals(newest):
                owner = rival.claim.owner if rival.claim is not None else "somebody"
                raise ConflictError(f"{self.store.uri} is being cleaned by {owner}; wait for it")
            if newest.cleaned != planned.cleaned or newest.oldest > oldest:
                raise ConflictError(f"{self.store.uri}: another clean came between; clean again")
            if declared(newest) <= planned.cleaned:
                raise _HeldBackError(f"{self.store.uri}: a writer has just begun to read version {held_by(newest)}; clean again later")

        try:
            with working(self.store, self.state, Start(action="clean", oldest=declared), self.runtime, admit) as work:
                oldest = work.state.oldest
                self._remove_retired([one for one in retired if one.version <= oldest], work)
                put_base(self.store, oldest)
                work.commit(work.state, lambda newest: Proposal(action="clean", oldest=oldest))
        except _HeldBackError as error:
            self.tally.notes.append(str(error))
            return self.state.oldest
        self.state = work.state
        return oldest

    def _remove_retired(self, retired: list[Retired], work: Work | None = None) -> None:
        """A crash among the files leaves the runs that name them; one among the runs, nothing that the next clean cannot find."""
        say = (lambda stage: None) if work is None else work.heartbeat.say
        say("files")
        self._remove(expired_files(self.store, self.state, retired))
        say("runs")
        self._remove(old_runs(self.state, retired))

    def _trim(self, oldest: int, before_ms: int) -> None:
        if self.options.dry_run:
            self._remove(old_entries(self.store, oldest, before_ms))
            return
        if not self.state.cleaned:
            return
        put_base(self.store, self.state.cleaned)
        put_hint(self.store, self.state)
        self._remove(old_entries(self.store, self.state.cleaned, before_ms))

    def _sweep(self, before_ms: int) -> None:
        """Of writes to a local disk that never ended."""
        swept = 0 if self.options.dry_run else sweep_staging(self.store.config, before_ms)
        if swept:
            self.tally.count("unfinished write", "a process died while it wrote", swept, 0)

    def _remove(self, removals: Iterable[Removal]) -> None:
        batch: list[Removal] = []
        for one in removals:
            batch.append(one)
            if len(batch) == _BATCH:
                self._delete(batch)
                batch = []
        self._delete(batch)

    def _delete(self, batch: list[Removal]) -> None:
        if batch and not self.options.dry_run:
            self.store.delete([one.path for one in batch])
        self.tally.add(batch)


def _words(found: Instant) -> str:
    return f"{found.action} {found.id}"
