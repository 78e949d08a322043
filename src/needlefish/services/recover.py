"""Which chunksets are live when the `files` runs cannot say: every other run names its files, and tombstones speak too.

A file that no run names stays out: it may be what a crashed writer left behind, and must not come to life.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.errors import CorruptError, NotFoundError
from needlefish.format.files_record import decode_files
from needlefish.format.metadata_key import file_key, hash64_part
from needlefish.format.run import IS_DELETED, KEY, run_path
from needlefish.index.salvage import read_header, salvage
from needlefish.model.chunkset import ChunksetInfo, PartitionPath
from needlefish.model.log import RunKind, RunRef
from needlefish.table.partition.select import Selection
from needlefish.table.snapshot import Snapshot

_COLUMN_PART = 12
_FILE_PART = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class FileClue:
    """A live file and what is known of it before anybody looks: all of its info, or merely that it exists.

    `prev_max` is the version before the oldest run that names it, which its writer had read for certain.
    """

    key: str
    partition: PartitionPath
    file_name: str
    prev_max: int
    info: ChunksetInfo | None = None


def clue_of(info: ChunksetInfo) -> FileClue:
    """A file of which all is known."""
    key = file_key(info.partition, info.file_name)
    return FileClue(key=key, partition=info.partition, file_name=info.file_name, prev_max=info.prev_max, info=info)


@dataclass(slots=True, kw_only=True)
class _Evidence:
    """What all runs say together, by the key of the `files` record."""

    clues: dict[str, FileClue] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)


def live_files(snapshot: Snapshot, selection: Selection) -> list[FileClue]:
    """Every file that some readable record names and that none calls removed, in the order of keys."""
    found = _Evidence()
    _gather(snapshot, "files", found)
    if found.unreadable:
        _gather_named(snapshot, found)
    return [clue for key, clue in sorted(found.clues.items()) if key not in found.dead and selection.texts_of(clue.partition) is not None]


def _gather_named(snapshot: Snapshot, found: _Evidence) -> None:
    """Statistics first, being small; every commit has both, so that filters are read only where those have gaps too."""
    before = len(found.unreadable)
    _gather(snapshot, "column_stats", found)
    if len(found.unreadable) > before:
        _gather(snapshot, "bloom_filters", found)


def _gather(snapshot: Snapshot, kind: RunKind, found: _Evidence) -> None:
    """The newest record of each file wins inside one kind; runs come newest first."""
    decided: set[str] = set()
    for ref in snapshot.state.runs_of(kind):
        here: set[str] = set()
        for records in _readable(snapshot, ref, found.unreadable):
            keys, records = _one_for_each_file(snapshot, kind, records)
            infos = _infos(records) if kind == "files" else {}
            for key, row in zip(keys, _named(records), strict=True):
                if key not in decided:
                    here.add(key)
                    _note(found, key, row, ref, infos.get(key))
        decided |= here


def _readable(snapshot: Snapshot, ref: RunRef, unreadable: list[str]) -> Iterator[pa.RecordBatch]:
    path = run_path(ref.kind, ref.id)
    try:
        for block in salvage(snapshot.store, ref, *read_header(snapshot.store, ref)):
            if block.records is None:
                unreadable.append(f"{path}: {block.wrong}")
            else:
                yield block.records
    except (CorruptError, NotFoundError) as error:
        unreadable.append(str(error))


def _one_for_each_file(snapshot: Snapshot, kind: RunKind, records: pa.RecordBatch) -> tuple[list[str], pa.RecordBatch]:
    """The keys of files, and a record of each: statistics of the first key column, which every file has, and row-key filters."""
    if kind == "column_stats":
        prefix = hash64_part(str(snapshot.state.definition.key[0]))
        records = records.filter(pc.starts_with(records[KEY], prefix))
        return [key[_COLUMN_PART:] for key in records[KEY].to_pylist()], records
    if kind == "bloom_filters":
        records = records.filter(pc.equal(pc.utf8_length(records[KEY]), _FILE_PART))
    return records[KEY].to_pylist(), records


def _infos(records: pa.RecordBatch) -> dict[str, ChunksetInfo]:
    live = records.filter(pc.invert(records[IS_DELETED]))
    return dict(zip(live[KEY].to_pylist(), decode_files(live), strict=True))


def _named(records: pa.RecordBatch) -> list[dict[str, object]]:
    """Without the heavy columns."""
    light = [name for name in records.schema.names if name in (IS_DELETED, "partition", "file_name")]
    return list(records.select(light).to_pylist())


def _note(found: _Evidence, key: str, row: dict[str, object], ref: RunRef, info: ChunksetInfo | None) -> None:
    if row[IS_DELETED]:
        found.dead.add(key)
        return
    before = found.clues.get(key)
    prev_max = (ref.version or 0) - 1
    found.clues[key] = FileClue(
        key=key,
        partition=PartitionPath(str(row["partition"])),
        file_name=info.file_name if info else str(row.get("file_name")) if before is None else before.file_name,
        prev_max=prev_max if before is None else min(prev_max, before.prev_max),
        info=info or (before.info if before else None),
    )
