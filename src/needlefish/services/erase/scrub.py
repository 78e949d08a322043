"""Runs without a word on files that are gone: each run that still has one is written anew without it, all in one entry.

Merges get there too, but in their own time. A run keeps its place among the others, so that nothing else about it changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.errors import ConflictError
from needlefish.format.run import IS_DELETED, KEY
from needlefish.index import newest
from needlefish.index.build import put_stream
from needlefish.index.point_kinds import point_reader, whole_runs
from needlefish.index.run_reader import RunReader
from needlefish.model.log import RunKind, RunRef, TableState
from needlefish.runtime import Runtime
from needlefish.services.merge import MergePlan, alive_in, run_merge
from needlefish.store import Store
from needlefish.timeline import Proposal, Start, catch_up, working

# Other services may take a run away meanwhile.
_MOST_ROUNDS = 5


def scrub(store: Store, state: TableState, runtime: Runtime) -> TableState:
    """The state after it; `state` itself if no run names a file that is gone."""
    for rounds in range(_MOST_ROUNDS):
        try:
            return _scrub(store, state, runtime)
        except ConflictError:
            if rounds == _MOST_ROUNDS - 1:
                raise
            state = catch_up(store, state) or state
    raise AssertionError("the last round returns or raises")


def _scrub(store: Store, state: TableState, runtime: Runtime) -> TableState:
    stale = list(_stale_runs(store, state))
    if not stale:
        return state
    with working(store, state, Start(action="merge"), runtime) as work:
        done = [(one, _written_anew(store, state, one, work.runtime)) for one in stale]

        def propose(latest: TableState | None) -> Proposal:
            assert latest is not None, "the log of an open table never becomes empty"
            gone = tuple(run.id for one in stale for run in one.runs)
            # All or none: a tombstone may only go together with what it covers.
            if not {run.id for run in latest.runs}.issuperset(gone):
                raise ConflictError(f"{store.uri}: runs that were written anew are gone; another service was first")
            return Proposal(action="merge", runs_added=tuple(run for _, by in done for run in by), runs_removed=gone)

        work.commit(state, propose)
    return work.state


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stale:
    """A run that has records of files that are gone; of an index all its parts, and whether any other file is in it."""

    runs: tuple[RunRef, ...]
    dead: frozenset[str] = frozenset()
    is_all_dead: bool = False


def _stale_runs(store: Store, state: TableState) -> Iterator[_Stale]:
    for kind in record_kinds(state):
        dead = _dead_keys(store, state, kind)
        for run in state.runs_of(kind) if dead else ():
            if any(records.num_rows for records in RunReader(run).get(store, sorted(dead))):
                yield _Stale(runs=(run,), dead=dead)
    alive = alive_in(store, state)
    for index in state.definition.point_indexes:
        for whole in whole_runs(state.runs_of(index.run_kind)):
            known = alive(sorted(chunksets_in(store, whole[0])))
            if not all(known):
                yield _Stale(runs=tuple(whole), is_all_dead=not any(known))


def chunksets_in(store: Store, run: RunRef) -> set[str]:
    """The `files` keys that an index run knows."""
    assert run.point is not None, "only index runs count granules"
    return {found.key for found in point_reader(run).granules(store, range(run.point.granules))}


def record_kinds(state: TableState) -> tuple[str, ...]:
    """Kinds of runs that consist of records."""
    return (*get_args(RunKind), *(index.uncovered_kind for index in state.definition.point_indexes))


def _dead_keys(store: Store, state: TableState, kind: str) -> frozenset[str]:
    """Keys of one kind whose newest record is a tombstone."""
    readers = [RunReader(run) for run in state.runs_of(kind)]
    marked: set[str] = set()
    for reader in readers:
        for records in reader.scan(store):
            marked.update(records.filter(records[IS_DELETED])[KEY].to_pylist())
    back = (records[KEY].to_pylist() for records in newest.get(store, readers, sorted(marked))) if marked else ()
    return frozenset(marked - {key for keys in back for key in keys})


def _written_anew(store: Store, state: TableState, stale: _Stale, runtime: Runtime) -> tuple[RunRef, ...]:
    """What takes the place of a run: nothing, if it knew nothing else."""
    if stale.is_all_dead:
        return ()
    if stale.runs[0].point is not None:
        return run_merge(store, state, MergePlan(kind=stale.runs[0].kind, runs=stale.runs, oldest=False), runtime).runs
    return _without(store, stale.runs[0], stale.dead, runtime)


def _without(store: Store, run: RunRef, dead: frozenset[str], runtime: Runtime) -> tuple[RunRef, ...]:
    """Memory holds a few blocks, and the compressed bytes of the run."""
    gone = pa.array(sorted(dead), pa.string())
    kept = (records.filter(pc.invert(pc.is_in(records[KEY], value_set=gone))) for records in RunReader(run).scan(store))
    left = (records for records in kept if records.num_rows)
    first = next(left, None)
    if first is None:
        return ()
    return (put_stream(store, run.kind, first.schema, chain([first], left), runtime, version=run.version),)
