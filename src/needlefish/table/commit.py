"""Committing chunksets: the runs that describe them, then the log entry that makes them true.

Order matters: data before runs before entry. A crash in between leaves orphans, never half a commit.
"""

from collections.abc import Sequence

from needlefish.errors import ConflictError
from needlefish.format.column_stats_record import encode_column_stats
from needlefish.format.files_record import encode_files
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunRef, TableState, Totals
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store
from needlefish.table.point.consolidate import consolidated
from needlefish.table.point.coverage import Coverage, same_but_indexes
from needlefish.table.task import Written
from needlefish.timeline import Proposal, Work, commit


def totals_of(infos: Sequence[ChunksetInfo]) -> Totals:
    return Totals(rows=sum(i.rows for i in infos), files=len(infos), bytes=sum(i.bytes for i in infos))


def commit_append(store: Store, base: TableState, written: Written, runtime: Runtime = SYSTEM, work: Work | None = None) -> TableState:
    """Makes what was written under `base` part of the table and returns the new state."""
    runs = put_runs(store, base, written, runtime)
    infos = [entry.info for entry in written.entries]
    coverage = Coverage(store, base.definition, infos, runtime)

    def propose(state: TableState | None) -> Proposal:
        met = check_same_table(base, state, store.uri)
        return Proposal(action="append", runs_added=coverage.fitted(runs, met.definition), added=totals_of(infos))

    return commit(store, base, propose, runtime, work)


def put_runs(store: Store, base: TableState, written: Written, runtime: Runtime) -> tuple[RunRef, ...]:
    """All runs that describe what was written, those that tasks have put already among them."""
    return (*put_metadata_runs(store, written, runtime), *consolidated(store, base, written.runs, runtime))


def put_metadata_runs(store: Store, written: Written, runtime: Runtime) -> tuple[RunRef, ...]:
    """The `files` and `column_stats` runs of one commit: some hundred bytes for each file and column."""
    files = put_run(store, "files", encode_files(entry.info for entry in written.entries), runtime)
    stats = put_run(store, "column_stats", encode_column_stats(written.entries), runtime)
    return files, stats


def check_same_table(base: TableState, state: TableState | None, uri: str) -> TableState:
    """Rows that were routed and typed under one definition cannot be committed under another; indexes may come and go."""
    assert state is not None, "the log of an open table never becomes empty"
    if not same_but_indexes(base.definition, state.definition):
        raise ConflictError(f"{uri} was redefined between version {base.version} and {state.version}; open it again and repeat the write")
    return state
