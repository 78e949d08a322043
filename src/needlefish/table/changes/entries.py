"""From log entries to the chunksets that they brought and the rows that they hid.

An entry is looked at with the state before it, since a writer may hide again what somebody else has hidden meanwhile. Memory
holds what one entry says of files: some hundred bytes and a bitmap for each.
"""

from collections.abc import Collection, Iterator

import pyarrow as pa
from pyroaring import BitMap

from needlefish.format.files_record import decode_files
from needlefish.format.metadata_key import file_key
from needlefish.format.run import IS_DELETED, KEY
from needlefish.format.skips_record import SKIPS, decode_rows
from needlefish.index import newest
from needlefish.index.run_reader import RunReader
from needlefish.model.log import LogEntry, TableState
from needlefish.store import Store
from needlefish.table.changes.shares import Part, VersionChange
from needlefish.table.chunkset_rows import all_rows
from needlefish.table.skips import skips_of
from needlefish.table.snapshot import RunReaders, Snapshot
from needlefish.timeline import fold
from needlefish.timeline.replay import read_entries

# Entries that bring or hide rows. After all others the same rows are visible, be it in other files or under other columns.
CHANGING = frozenset({"create", "append", "adopt", "upsert", "delete"})
# Entries read at once.
_WINDOW = 64


def changes_between(store: Store, base: TableState | None, last: int) -> Iterator[VersionChange]:
    """The versions after `base` (None: from the first one on) up to `last` in which rows came or went, oldest first."""
    state, readers = base, RunReaders()
    for entry in _entries(store, 0 if base is None else base.version + 1, last):
        if entry.action in CHANGING:
            before = None if state is None else Snapshot(store=store, state=state, readers=readers)
            change = _change(store, before, entry)
            if change.added or change.removed:
                yield change
        state = fold(state, entry)


def _entries(store: Store, first: int, last: int) -> Iterator[LogEntry]:
    for start in range(first, last + 1, _WINDOW):
        yield from reversed(list(read_entries(store, start, min(start + _WINDOW - 1, last))))


def _change(store: Store, before: Snapshot | None, entry: LogEntry) -> VersionChange:
    files = list(_records(store, entry, "files"))
    came = [info for records in files for info in decode_files(newest.live(records))]
    gone = {key for records in files for key in records.filter(records[IS_DELETED])[KEY].to_pylist()}
    hidden = _skips(store, entry)
    # Rows that came too late, because a stored one outranks them, are hidden by the very entry that brings them.
    added = [(info, hidden.pop(file_key(info.partition, info.file_name), BitMap())) for info in came]
    return VersionChange(
        version=entry.version,
        added=tuple(part for info, late in added if (part := Part(info=info, rows=all_rows(info) - late)).rows),
        removed=() if before is None else tuple(_removed(before, hidden, gone)),
    )


def _removed(before: Snapshot, hidden: dict[str, BitMap], gone: Collection[str]) -> Iterator[Part]:
    """The rows that the entry hides, or that go with their files, and that were visible before it."""
    keys = sorted({*hidden, *gone})
    known = skips_of(before, keys) if keys else {}
    for records in newest.get(before.store, before.runs("files"), keys) if keys else ():
        for key, info in zip(records[KEY].to_pylist(), decode_files(records), strict=True):
            rows = (all_rows(info) if key in gone else hidden[key]) - known.get(key, BitMap())
            if rows:
                yield Part(info=info, rows=rows)


def _records(store: Store, entry: LogEntry, kind: str) -> Iterator[pa.RecordBatch]:
    return (records for run in entry.runs_added if run.kind == kind for records in RunReader(run).scan(store))


def _skips(store: Store, entry: LogEntry) -> dict[str, BitMap]:
    """By the keys of the chunksets."""
    found: dict[str, BitMap] = {}
    for records in map(newest.live, _records(store, entry, "skips")):
        for key, data in zip(records[KEY].to_pylist(), records[SKIPS].to_pylist(), strict=True):
            found[key] = found.get(key, BitMap()) | decode_rows(data, f"key {key}")
    return found
