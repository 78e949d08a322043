"""What the runs say of files: statistics and filters of a group of chunksets at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from needlefish.format.bloom_record import bloom_key
from needlefish.format.column_stats_record import decode_column_stats
from needlefish.format.files_record import decode_files
from needlefish.format.metadata_key import column_key
from needlefish.format.run import KEY
from needlefish.index import newest
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import ColumnStats
from needlefish.model.log import RunKind
from needlefish.table.find.tolerant import TolerantReader
from needlefish.table.row_stats import primitive_fields
from needlefish.table.skips import Hidden, with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify.report import DAMAGE

# Files looked at together, and the bytes of theirs (filters, and a granule each) that memory may hold.
_GROUP_FILES = 256
_GROUP_BYTES = 128 * 1024 * 1024
_BYTES_PER_ROW = 6
# Decoded rows take more room than the pages they come from.
_DECODED = 4

Complain = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntries:
    """One file and all that is recorded of it."""

    info: ChunksetInfo
    column_stats: dict[int, ColumnStats]
    # None is the row key.
    filters: dict[int | None, bytes]
    hidden: Hidden | None


def recorded_files(snapshot: Snapshot, complain: Complain) -> Iterator[list[FileEntries]]:
    """Every live chunkset that can still be read of the `files` runs, with its entries, in groups of bounded size."""
    for group in _groups(_infos(snapshot, complain)):
        stats = _stats(snapshot, group, complain)
        filters = _filters(snapshot, group, complain)
        hidden = _hidden(snapshot, group, complain)
        yield [_entries(snapshot.state.definition, info, stats, filters, hidden) for info in group]


def _infos(snapshot: Snapshot, complain: Complain) -> Iterator[ChunksetInfo]:
    for records in newest.scan(snapshot.store, _readers(snapshot, "files", complain)):
        yield from decode_files(records)


def _readers(snapshot: Snapshot, kind: RunKind, complain: Complain) -> list[TolerantReader]:
    return [TolerantReader(reader, complain) for reader in snapshot.runs(kind)]


def _groups(infos: Iterable[ChunksetInfo]) -> Iterator[list[ChunksetInfo]]:
    group: list[ChunksetInfo] = []
    size = 0
    for info in infos:
        group.append(info)
        size += info.rows * _BYTES_PER_ROW + max((granule.bytes for granule in info.granules), default=0) * _DECODED
        if len(group) >= _GROUP_FILES or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _stat_keys(definition: TableDefinition, info: ChunksetInfo) -> dict[int, str]:
    schema = next((found for found in definition.schemas if found.id == info.schema_id), definition.schema)
    return {field.id: column_key(str(field.id), info.partition, info.file_name) for field in primitive_fields(schema)}


def _filter_keys(definition: TableDefinition, info: ChunksetInfo) -> dict[int | None, str]:
    return {field_id: bloom_key(info.partition, info.file_name, field_id) for field_id in (None, *definition.bloom_columns)}


def _stats(snapshot: Snapshot, group: Sequence[ChunksetInfo], complain: Complain) -> dict[str, ColumnStats]:
    keys = [key for info in group for key in _stat_keys(snapshot.state.definition, info).values()]
    records = newest.get(snapshot.store, _readers(snapshot, "column_stats", complain), keys)
    return {row[KEY]: decode_column_stats(row) for batch in records for row in batch.to_pylist()}


def _filters(snapshot: Snapshot, group: Sequence[ChunksetInfo], complain: Complain) -> dict[str, bytes]:
    keys = [key for info in group for key in _filter_keys(snapshot.state.definition, info).values()]
    records = newest.get(snapshot.store, _readers(snapshot, "bloom_filters", complain), keys)
    return {row[KEY]: row["filter"] for batch in records for row in batch.to_pylist() if row["type"] == "SPLIT_BLOCK"}


def _hidden(snapshot: Snapshot, group: Sequence[ChunksetInfo], complain: Complain) -> dict[str, Hidden]:
    """By path; those of no file of the group where a run cannot be read."""
    try:
        return {info.path: hidden for info, hidden in with_hidden(snapshot, group) if hidden}
    except DAMAGE as error:
        complain(str(error))
        return {}


def _entries(
    definition: TableDefinition, info: ChunksetInfo, stats: dict[str, ColumnStats], filters: dict[str, bytes], hidden: dict[str, Hidden]
) -> FileEntries:
    return FileEntries(
        info=info,
        column_stats={field_id: stats[key] for field_id, key in _stat_keys(definition, info).items() if key in stats},
        filters={field_id: filters[key] for field_id, key in _filter_keys(definition, info).items() if key in filters},
        hidden=hidden.get(info.path),
    )
