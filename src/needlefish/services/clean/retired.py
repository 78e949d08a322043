"""What versions stopped needing: runs that entries removed, and chunksets that rewrites put others in the place of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.errors import CorruptError, NotFoundError
from needlefish.format.run import IS_DELETED, KEY, path_of
from needlefish.index import newest
from needlefish.index.run_reader import RunReader
from needlefish.model.chunkset import ChunksetId, PartitionPath, chunkset_path
from needlefish.model.log import REWRITES, LogEntry, RunRef, TableState
from needlefish.services.clean.result import Removal
from needlefish.store import Store
from needlefish.timeline import fold
from needlefish.timeline.replay import read_entries

_WINDOW = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Retired:
    """What one entry took away: from its version on nobody needs it."""

    version: int
    action: str
    runs: tuple[RunRef, ...]
    # The `files` runs that have tombstones, and those of the version before, which know the chunksets.
    tombstones: tuple[RunRef, ...] = ()
    before: tuple[RunRef, ...] = ()


def retired_between(store: Store, base: TableState, last: int) -> list[Retired]:
    """In the order of versions, for the entries after `base` up to the version `last`. Memory follows what was removed."""
    found = []
    for entry in _entries(store, base.version + 1, last):
        if entry.runs_removed or entry.action in REWRITES:
            found.append(_retired(base, entry))
        base = fold(base, entry)
    return found


def _entries(store: Store, first: int, last: int) -> Iterator[LogEntry]:
    for begin in range(first, last + 1, _WINDOW):
        yield from list(read_entries(store, begin, min(last, begin + _WINDOW - 1)))[::-1]


def _retired(before: TableState, entry: LogEntry) -> Retired:
    gone = set(entry.runs_removed)
    runs = tuple(run for run in before.runs if run.id in gone)
    if entry.action not in REWRITES:
        return Retired(version=entry.version, action=entry.action, runs=runs)
    return Retired(
        version=entry.version,
        action=entry.action,
        runs=runs,
        tombstones=tuple(run for run in entry.runs_added if run.kind == "files"),
        before=before.runs_of("files"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """A chunkset that a rewrite took away."""

    key: str
    path: str


def tombstones_of(store: Store, one: Retired) -> Iterator[Tombstone]:
    """The chunksets that an entry took away, from its own runs."""
    for run in one.tombstones:
        for records in RunReader(run).scan(store):
            gone = records.filter(records[IS_DELETED])
            yield from (Tombstone(key=key, path=path) for key, path in zip(gone[KEY].to_pylist(), paths_of(gone), strict=True))


def paths_of(records: pa.RecordBatch) -> list[str]:
    """Where the chunksets of `files` records lie, tombstones or not."""
    adopted = records["adopted"].to_pylist() if "adopted" in records.schema.names else [None] * records.num_rows
    rows = zip(records["id"].to_pylist(), records["partition"].to_pylist(), adopted, strict=True)
    return [other or chunkset_path(PartitionPath(partition), ChunksetId(chunkset)) for chunkset, partition, other in rows]


def expired_files(store: Store, state: TableState, retired: Iterable[Retired]) -> Iterator[Removal]:
    """Files that rewrites took away. One that the newest version has all the same is left alone, whatever the log says."""
    for one in retired:
        known = known_tombstones(store, state, one)
        alive = set(_sizes(store, state.runs_of("files"), known))
        sizes = _sizes_if_readable(store, one.before, known)
        why = f"rewritten by the {one.action} of version {one.version}"
        for key, path in known.items():
            if key not in alive:
                yield Removal(path=path, bytes=sizes.get(key, 0), kind="expired file", why=why)


def known_tombstones(store: Store, state: TableState, one: Retired) -> dict[str, str]:
    """Paths by key. Runs that are gone were removed by a clean that did not come to its end, after all files of that version."""
    try:
        return {found.key: found.path for found in tombstones_of(store, one)}
    except CorruptError as error:
        if isinstance(error.__cause__, NotFoundError) and one.version <= state.oldest:
            return {}
        raise


def _sizes(store: Store, runs: Sequence[RunRef], keys: Iterable[str]) -> dict[str, int]:
    wanted = list(keys)
    found: dict[str, int] = {}
    for records in newest.get(store, [RunReader(run) for run in runs], wanted) if wanted else ():
        found.update(zip(records[KEY].to_pylist(), pc.fill_null(records["bytes"], 0).to_pylist(), strict=True))
    return found


def _sizes_if_readable(store: Store, runs: Sequence[RunRef], keys: Iterable[str]) -> dict[str, int]:
    """Only for the report."""
    try:
        return _sizes(store, runs, keys)
    except CorruptError:
        return {}


def old_runs(state: TableState, retired: Iterable[Retired]) -> Iterator[Removal]:
    """Runs that entries took away; never one that the newest version names."""
    live = {path_of(run) for run in state.runs}
    for one in retired:
        why = f"replaced or dropped by the {one.action} of version {one.version}"
        for run in one.runs:
            if path_of(run) not in live:
                yield Removal(path=path_of(run), bytes=run.bytes, kind="old run", why=why)
