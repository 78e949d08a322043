"""Records of the `column_stats` runs: one column of one chunkset each."""

from collections.abc import Iterable

import pyarrow as pa

from needlefish.format.metadata_key import column_key
from needlefish.format.run import IS_DELETED, KEY
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.entries import ChunksetEntries, ColumnStats

COLUMN_STATS_SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.string(), nullable=False),
        pa.field(IS_DELETED, pa.bool_(), nullable=False),
        ("partition", pa.string()),
        ("file_name", pa.string()),
        ("field_id", pa.int64()),
        ("min", pa.binary()),
        ("max", pa.binary()),
        ("value_count", pa.int64()),
        ("null_count", pa.int64()),
        ("has_nan", pa.bool_()),
        ("total_size", pa.int64()),
        ("total_uncompressed_size", pa.int64()),
    ]
)


def encode_column_stats(entries: Iterable[ChunksetEntries]) -> pa.Table:
    """The records of one commit, sorted by key."""
    rows = [_row(entry.info, stats) for entry in entries for stats in entry.column_stats]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: str(row[KEY])), schema=COLUMN_STATS_SCHEMA)


def _row(info: ChunksetInfo, stats: ColumnStats) -> dict[str, object]:
    return {
        KEY: column_key(str(stats.field_id), info.partition, info.file_name),
        IS_DELETED: False,
        "partition": info.partition,
        "file_name": info.file_name,
        **{name: getattr(stats, name) for name in ColumnStats.__slots__},
    }


def decode_column_stats(row: dict[str, object]) -> ColumnStats:
    return ColumnStats(**{name: row[name] for name in ColumnStats.__slots__})  # type: ignore[arg-type]
