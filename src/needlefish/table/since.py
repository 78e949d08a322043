"""What was added between two versions, from the log alone: the runs that the entries name are still there, merged or not."""

from collections.abc import Collection, Iterator
from dataclasses import replace

from pyroaring import BitMap

from needlefish.format.files_record import decode_files
from needlefish.format.run import IS_DELETED, KEY
from needlefish.format.skips_record import decode_skips
from needlefish.index import newest
from needlefish.index.run_reader import RunReader
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import REWRITES, LogEntry, TableState
from needlefish.store import Store
from needlefish.timeline.replay import read_entries

# Entries that say again what is true already.
_REPEATING = ("merge", "rebuild")


def entries_between(store: Store, base: TableState, state: TableState) -> list[LogEntry]:
    """The entries after `base` up to `state`, oldest first."""
    if base.version == state.version:
        return []
    return list(read_entries(store, base.version + 1, state.version))[::-1]


def added_since(store: Store, base: TableState, state: TableState) -> TableState:
    """A state that has what was added after `base` and nothing else.

    It is without point indexes: one that came between covers what its own entry does not bring.
    """
    entries = [entry for entry in entries_between(store, base, state) if entry.action not in _REPEATING]
    runs = tuple(replace(run, version=run.version or entry.version) for entry in entries for run in entry.runs_added if run.point is None)
    return replace(state, runs=runs, definition=replace(state.definition, point_indexes=()))


def chunksets_since(store: Store, base: TableState, state: TableState) -> Iterator[ChunksetInfo]:
    """Every chunkset that was added after `base`; some may be gone again."""
    for entry in entries_between(store, base, state):
        for run in entry.runs_added if entry.action not in _REPEATING else ():
            if run.kind == "files":
                for records in RunReader(run).scan(store):
                    yield from decode_files(newest.live(records))


def removed_since(store: Store, base: TableState, state: TableState) -> set[str]:
    """The keys of chunksets that were taken away after `base`, as compactions do."""
    removed: set[str] = set()
    for entry in entries_between(store, base, state):
        # Only these take chunksets away: the runs of all others need not be read.
        for run in entry.runs_added if entry.action in REWRITES else ():
            for records in RunReader(run).scan(store) if run.kind == "files" else ():
                removed |= set(records.filter(records[IS_DELETED])[KEY].to_pylist())
    return removed


def hidden_since(store: Store, base: TableState, state: TableState, keys: Collection[str]) -> dict[str, BitMap]:
    """The rows that were hidden after `base`, of some chunksets by key."""
    found: dict[str, BitMap] = {}
    for entry in entries_between(store, base, state):
        for run in entry.runs_added if entry.action not in _REPEATING else ():
            for records in RunReader(run).scan(store) if run.kind == "skips" else ():
                for row in newest.live(records).to_pylist():
                    if row[KEY] in keys:
                        found[row[KEY]] = found.get(row[KEY], BitMap()) | decode_skips(row).rows
    return found
