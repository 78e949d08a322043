"""Records of the `bloom_filters` runs: the filters of one chunkset, the row key's first.

The row key's filter has the key that Hudi gives it; a declared column's adds its own part, so that one prefix finds all.
"""

from collections.abc import Iterable

import pyarrow as pa

from needlefish.format.metadata_key import file_key, hash64_part
from needlefish.format.run import IS_DELETED, KEY
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.entries import BloomEntry, ChunksetEntries

BLOOM_SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.string(), nullable=False),
        pa.field(IS_DELETED, pa.bool_(), nullable=False),
        ("partition", pa.string()),
        ("file_name", pa.string()),
        ("field_id", pa.int64()),
        ("type", pa.string()),
        ("timestamp", pa.int64()),
        ("filter", pa.binary()),
    ]
)


def bloom_key(partition: str, file_name: str, field_id: int | None) -> str:
    """The key of one filter."""
    return file_key(partition, file_name) + ("" if field_id is None else hash64_part(str(field_id)))


def encode_bloom_filters(entries: Iterable[ChunksetEntries], timestamp_ms: int) -> pa.Table:
    """The records of one commit, sorted by key."""
    rows = [_row(entry.info, bloom, timestamp_ms) for entry in entries for bloom in entry.bloom_filters]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: str(row[KEY])), schema=BLOOM_SCHEMA)


def _row(info: ChunksetInfo, bloom: BloomEntry, timestamp_ms: int) -> dict[str, object]:
    return {
        KEY: bloom_key(info.partition, info.file_name, bloom.field_id),
        IS_DELETED: False,
        "partition": info.partition,
        "file_name": info.file_name,
        "field_id": bloom.field_id,
        "type": bloom.type,
        "timestamp": timestamp_ms,
        "filter": bloom.filter,
    }
