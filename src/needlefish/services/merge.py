"""Keeping live runs few: the newest ones become one, so that a lookup asks a handful however many commits there were.

Nobody waits for a merge. It writes its run, then proposes it on top of whatever the table is by then; where another
service has taken one of the runs away, it gives up. A crash before the entry leaves an orphan run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

from needlefish.errors import ConflictError, CorruptError, NeedlefishError
from needlefish.format.run import KEY
from needlefish.index import newest as newest_runs
from needlefish.index.combine import UNITE_SKIPS
from needlefish.index.merge import merge_runs
from needlefish.index.point import Alive
from needlefish.index.point_kinds import point_merge, whole_runs
from needlefish.index.run_reader import RunReader
from needlefish.model.log import RunKind, RunRef, TableState
from needlefish.model.point_index import INDEX_KIND
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store
from needlefish.table.point.consolidate import parts_of
from needlefish.timeline import Proposal, Start, Work, commit, working

# Fewer runs than this are left alone: each costs a lookup about as much as a merge would save.
LEAST_RUNS = 8
# A run this many times the size of all newer ones together stays out. Runs then grow geometrically with age: 20,000
# equal commits leave at most 13 runs, and write each record 10 times. With 1, commits of eight runs would pile up for ever.
_GROWTH = 2
# The result is put in one piece; runs of this size stay as they are.
_MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """Runs of one kind to be made one, newest first. Only what is oldest of all may forget its tombstones."""

    kind: str
    runs: tuple[RunRef, ...]
    oldest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A plan and the run it gave, in parts if it is a large one of an index."""

    plan: MergePlan
    runs: tuple[RunRef, ...]


def plan_merges(state: TableState) -> list[MergePlan]:
    """What is worth merging in this version, at most one plan for each kind."""
    indexes = state.definition.point_indexes
    kinds = (*get_args(RunKind), *(index.uncovered_kind for index in indexes), *(index.run_kind for index in indexes))
    plans = (_plan(kind, state.runs_of(kind)) for kind in kinds)
    return [plan for plan in plans if plan is not None]


def _plan(kind: str, runs: Sequence[RunRef]) -> MergePlan | None:
    """Only neighbours in age may become one, since the result has the age of its newest part."""
    wholes = whole_runs(runs) if kind.startswith(INDEX_KIND) else [[run] for run in runs]
    taken = _taken(_alike(wholes))
    if not taken:
        return None
    return MergePlan(kind=kind, runs=tuple(run for whole in wholes[:taken] for run in whole), oldest=taken == len(wholes))


def _alike(wholes: Sequence[Sequence[RunRef]]) -> Sequence[Sequence[RunRef]]:
    """The newest runs with the same number of slots: one with fewer would take its coarseness to the others."""
    slots = [whole[0].point.slots if whole[0].point is not None else 0 for whole in wholes]
    different = next((number for number, found in enumerate(slots) if found != slots[0]), len(slots))
    return wholes[:different]


def _taken(wholes: Sequence[Sequence[RunRef]]) -> int:
    """How many of the newest runs to merge: up to one that dwarfs them or that one merge cannot carry."""
    records = total_bytes = 0
    for number, whole in enumerate(wholes):
        too_large = total_bytes + sum(run.bytes for run in whole) > _MOST_BYTES
        if number >= LEAST_RUNS - 1 and (too_large or sum(run.records for run in whole) >= _GROWTH * records):
            # One too few to leave it out: with the next commit there will be enough, while taking it in rewrites it each time.
            return number if number >= LEAST_RUNS else 0
        if too_large:
            return 0
        records, total_bytes = records + sum(run.records for run in whole), total_bytes + sum(run.bytes for run in whole)
    return len(wholes) if len(wholes) >= LEAST_RUNS else 0


def run_merge(store: Store, state: TableState, plan: MergePlan, runtime: Runtime = SYSTEM) -> Merged:
    """Reads the runs and puts the one that replaces them; nothing is true of it yet."""
    if not plan.kind.startswith(INDEX_KIND):
        combine = UNITE_SKIPS if plan.kind == "skips" else None
        merged = merge_runs(store, plan.kind, plan.runs, runtime, drop_tombstones=plan.oldest, combine=combine)
        return Merged(plan=plan, runs=(merged,))
    # As old as what it was made of, so that the next merge finds it in its place.
    version = max(run.version or 0 for run in plan.runs)
    merge_part = point_merge(plan.runs[0])
    parts = [merge_part(store, part.runs, alive_in(store, state), runtime, part.range) for part in parts_of(plan.runs)]
    return Merged(plan=plan, runs=tuple(replace(run, version=version) for run in parts))


def alive_in(store: Store, state: TableState) -> Alive:
    """Tells chunksets of this version from those that are gone."""
    readers = [RunReader(run) for run in state.runs_of("files")]

    def alive(keys: Sequence[str]) -> list[bool]:
        there = {key for records in newest_runs.get(store, readers, keys) for key in records[KEY].to_pylist()}
        return [key in there for key in keys]

    return alive


def commit_merges(
    store: Store, state: TableState, done: Sequence[Merged], runtime: Runtime = SYSTEM, work: Work | None = None
) -> TableState | None:
    """Puts the merged runs in the place of their inputs, as one version; None if no merge can stand any more."""

    def propose(newest: TableState | None) -> Proposal:
        assert newest is not None, "the log of an open table never becomes empty"
        there = {run.id for run in newest.runs}
        standing = [merge for merge in done if all(run.id in there for run in merge.plan.runs)]
        if not standing:
            raise ConflictError(f"{store.uri}: the runs to be merged are gone; another service was first")
        return Proposal(
            action="merge",
            runs_added=tuple(run for merge in standing for run in merge.runs),
            runs_removed=tuple(run.id for merge in standing for run in merge.plan.runs),
        )

    try:
        return commit(store, state, propose, runtime, work)
    except ConflictError:
        return None


def merge(store: Store, state: TableState, runtime: Runtime = SYSTEM) -> TableState:
    """Plans, runs and commits what `state` is worth merging; the state that is newest then, or `state` itself."""
    plans = plan_merges(state)
    if not plans:
        return state
    with working(store, state, Start(action="merge"), runtime) as work:
        tried = (_readable(store, state, plan, work.runtime) for plan in plans)
        done = [merged for merged in tried if merged is not None]
        if done:
            commit_merges(store, state, done, work.runtime, work)
    return work.state


def _readable(store: Store, state: TableState, plan: MergePlan, runtime: Runtime) -> Merged | None:
    """A damaged run is left where `verify` sees it and a rebuild replaces it; the other kinds are merged all the same."""
    try:
        return run_merge(store, state, plan, runtime)
    except CorruptError:
        return None


def tidy(store: Store, state: TableState, runtime: Runtime = SYSTEM) -> TableState:
    """Merges after somebody's commit, which stands already: whatever goes wrong here is left for the next one to try."""
    try:
        return merge(store, state, runtime)
    except NeedlefishError:
        return state
