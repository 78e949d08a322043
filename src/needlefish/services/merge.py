"""Keeping live runs few: the newest ones become one, so that a lookup asks a handful however many commits there were.

Nobody waits for a merge. It writes its run, then proposes it on top of whatever the table is by then; where another
service has taken one of the runs away, it gives up. A crash before the entry leaves an orphan run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from needlefish.errors import ConflictError, CorruptError, NeedlefishError
from needlefish.index.combine import UNITE_SKIPS
from needlefish.index.merge import merge_runs
from needlefish.model.log import RunKind, RunRef, TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store
from needlefish.timeline import Log, Proposal
from needlefish.version import WRITER

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

    kind: RunKind
    runs: tuple[RunRef, ...]
    oldest: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A plan and the run it gave."""

    plan: MergePlan
    run: RunRef


def plan_merges(state: TableState) -> list[MergePlan]:
    """What is worth merging in this version, at most one plan for each kind."""
    plans = (_plan(kind, state.runs_of(kind)) for kind in get_args(RunKind))
    return [plan for plan in plans if plan is not None]


def _plan(kind: RunKind, runs: Sequence[RunRef]) -> MergePlan | None:
    """Only neighbours in age may become one, since the result has the age of its newest part."""
    taken = _taken(runs)
    return MergePlan(kind=kind, runs=tuple(runs[:taken]), oldest=taken == len(runs)) if taken else None


def _taken(runs: Sequence[RunRef]) -> int:
    """How many of the newest runs to merge: up to one that dwarfs them or that one put cannot carry."""
    records = total_bytes = 0
    for number, run in enumerate(runs):
        too_large = total_bytes + run.bytes > _MOST_BYTES
        if number >= LEAST_RUNS - 1 and (too_large or run.records >= _GROWTH * records):
            # One too few to leave it out: with the next commit there will be enough, while taking it in rewrites it each time.
            return number if number >= LEAST_RUNS else 0
        if too_large:
            return 0
        records, total_bytes = records + run.records, total_bytes + run.bytes
    return len(runs) if len(runs) >= LEAST_RUNS else 0


def run_merge(store: Store, plan: MergePlan, runtime: Runtime = SYSTEM) -> Merged:
    """Reads the runs and puts the one that replaces them; nothing is true of it yet."""
    combine = UNITE_SKIPS if plan.kind == "skips" else None
    return Merged(plan=plan, run=merge_runs(store, plan.kind, plan.runs, runtime, drop_tombstones=plan.oldest, combine=combine))


def commit_merges(store: Store, state: TableState, done: Sequence[Merged], runtime: Runtime = SYSTEM) -> TableState | None:
    """Puts the merged runs in the place of their inputs, as one version; None if no merge can stand any more."""

    def propose(newest: TableState | None) -> Proposal:
        assert newest is not None, "the log of an open table never becomes empty"
        there = {run.id for run in newest.runs}
        standing = [merge for merge in done if all(run.id in there for run in merge.plan.runs)]
        if not standing:
            raise ConflictError(f"{store.uri}: the runs to be merged are gone; another service was first")
        return Proposal(
            action="merge",
            runs_added=tuple(merge.run for merge in standing),
            runs_removed=tuple(run.id for merge in standing for run in merge.plan.runs),
        )

    try:
        return Log(store, WRITER, runtime).append(state, propose)
    except ConflictError:
        return None


def merge(store: Store, state: TableState, runtime: Runtime = SYSTEM) -> TableState:
    """Plans, runs and commits what `state` is worth merging; the state that is newest then, or `state` itself."""
    tried = (_readable(store, plan, runtime) for plan in plan_merges(state))
    done = [merged for merged in tried if merged is not None]
    return (commit_merges(store, state, done, runtime) if done else None) or state


def _readable(store: Store, plan: MergePlan, runtime: Runtime) -> Merged | None:
    """A damaged run is left where `verify` sees it and a rebuild replaces it; the other kinds are merged all the same."""
    try:
        return run_merge(store, plan, runtime)
    except CorruptError:
        return None


def tidy(store: Store, state: TableState, runtime: Runtime = SYSTEM) -> TableState:
    """Merges after somebody's commit, which stands already: whatever goes wrong here is left for the next one to try."""
    try:
        return merge(store, state, runtime)
    except NeedlefishError:
        return state
