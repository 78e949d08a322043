"""Committing rows and skips together: what replaces and what is replaced become true in one entry.

Order matters, as for every commit: data before runs before entry. A crash in between leaves orphans.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from needlefish.errors import ConflictError
from needlefish.format.skips_record import Skips, encode_skips, united
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import Action, Batch, RunRef, TableState, Totals
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store
from needlefish.table.commit import check_same_table, put_runs, totals_of
from needlefish.table.planned import check_unplanned
from needlefish.table.point.coverage import Coverage
from needlefish.table.since import removed_since
from needlefish.table.skips import skips_of
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import Written
from needlefish.timeline import Proposal, Work, commit

NOTHING_WRITTEN = Written(entries=(), runs=())

# Called with the state that the keys were compared against and the newest one, once for each attempt to commit: compares
# with what came between and returns the skips that are missing.
Heal = Callable[[TableState, TableState], Iterable[Skips]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """What a commit wants to become true: rows that were written, and rows that they or a delete hide."""

    action: Action
    written: Written = NOTHING_WRITTEN
    skips: tuple[Skips, ...] = ()
    batch: Batch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What became of changes."""

    state: TableState
    # The rows that were visible before and are hidden now.
    newly: tuple[Skips, ...] = ()
    # The batch, or a later one of its application, was there already: nothing was done.
    repeated: bool = False

    @property
    def skipped(self) -> int:
        return sum(len(one.rows) for one in self.newly)


def commit_changes(
    store: Store,
    base: TableState,
    changes: RowChanges,
    *,
    heal: Heal | None = None,
    runtime: Runtime = SYSTEM,
    work: Work | None = None,
) -> Committed:
    """Makes changes that were prepared under `base` part of the table, as one version."""
    if is_repeated(base, changes.batch):
        return Committed(state=base, repeated=True)
    attempt = _Attempt(store=store, base=base, changes=changes, heal=heal, runtime=runtime)
    if not changes.written.entries and not changes.skips and changes.batch is None:
        return Committed(state=base)
    attempt.put()
    state = commit(store, base, attempt.propose, runtime, work)
    return Committed(state=state, newly=() if attempt.repeated else attempt.newly, repeated=attempt.repeated)


def is_repeated(state: TableState, batch: Batch | None) -> bool:
    """Whether a state has the batch, or a later one of the same application."""
    last = None if batch is None else state.last_batch(batch.application)
    return batch is not None and last is not None and batch.number <= last


@dataclass(kw_only=True)
class _Attempt:
    """One commit, over all its attempts."""

    store: Store
    base: TableState
    changes: RowChanges
    heal: Heal | None
    runtime: Runtime
    runs: tuple[RunRef, ...] = ()
    newly: tuple[Skips, ...] = ()
    repeated: bool = False
    # Skips of an earlier attempt and their run, should the next one need the same.
    _hiding: tuple[tuple[Skips, ...], tuple[RunRef, ...]] = field(default=((), ()))
    # Up to which version it is known which chunksets were taken away, and those.
    _removed: tuple[TableState | None, frozenset[str]] = (None, frozenset())

    @property
    def _infos(self) -> list[ChunksetInfo]:
        return [entry.info for entry in self.changes.written.entries]

    @cached_property
    def coverage(self) -> Coverage:
        return Coverage(self.store, self.base.definition, self._infos, self.runtime)

    def put(self) -> None:
        """All that does not depend on what others commit meanwhile."""
        self.runs = put_runs(self.store, self.base, self.changes.written, self.runtime) if self.changes.written.entries else ()
        self._hide(self.changes.skips)

    def propose(self, newest: TableState | None) -> Proposal | None:
        newest = check_same_table(self.base, newest, self.store.uri)
        self.repeated = is_repeated(newest, self.changes.batch)
        if self.repeated:
            return None
        healing = () if self.heal is None else tuple(self.heal(self.base, newest))
        self._hide((*self._standing(newest), *healing))
        check_unplanned(self.store, newest, (one.key for one in self._hiding[0]))
        self.newly = newly_hidden(self.store, newest, self._hiding[0])
        totals = totals_of(self._infos)
        return Proposal(
            action=self.changes.action,
            runs_added=(*self.coverage.fitted(self.runs, newest.definition), *self._hiding[1]),
            added=totals.plus(Totals(skipped=sum(len(one.rows) for one in self.newly))),
            batch=self.changes.batch,
            # Who heals has compared with everything up to the newest state.
            prev_max=self.base.version if self.heal is None else newest.version,
        )

    def _standing(self, newest: TableState) -> Iterable[Skips]:
        """Skips of chunksets that are there still. What a compaction took away has new chunksets in its place, whose rows only
        healing knows."""
        known, removed = self._removed
        removed |= removed_since(self.store, known or self.base, newest)
        self._removed = (newest, removed)
        standing = tuple(one for one in self.changes.skips if one.key not in removed)
        if self.heal is None and len(standing) < len(self.changes.skips):
            raise ConflictError(f"{self.store.uri}: files that this commit hides rows of were rewritten meanwhile; repeat the change")
        return standing

    def _hide(self, skips: Iterable[Skips]) -> None:
        """One run for all skips of the commit; what an attempt put in vain a clean removes."""
        wanted = tuple(united(skips).values())
        if wanted != self._hiding[0]:
            records = encode_skips(wanted)
            runs = (put_run(self.store, "skips", records, self.runtime),) if records.num_rows else ()
            self._hiding = (wanted, runs)


def newly_hidden(store: Store, state: TableState, skips: Iterable[Skips]) -> tuple[Skips, ...]:
    """Of these rows those that no run of the state hides yet."""
    wanted = united(skips)
    known = skips_of(Snapshot(store=store, state=state), wanted) if wanted else {}
    new = (replace(one, rows=one.rows - known[key]) if key in known else one for key, one in wanted.items())
    return tuple(one for one in new if one.rows)
