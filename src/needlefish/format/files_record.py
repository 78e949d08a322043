"""Records of the `files` runs: one chunkset each."""

from collections.abc import Iterable

import pyarrow as pa

from needlefish.format.metadata_key import file_key
from needlefish.format.run import IS_DELETED, KEY
from needlefish.model.chunkset import ChunksetId, ChunksetInfo, Granule, PartitionPath

_GRANULE = pa.struct([("rows", pa.int64()), ("offset", pa.int64()), ("bytes", pa.int64())])

FILES_SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.string(), nullable=False),
        pa.field(IS_DELETED, pa.bool_(), nullable=False),
        ("id", pa.string()),
        ("partition", pa.string()),
        ("partition_values", pa.list_(pa.string())),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("footer_bytes", pa.int64()),
        ("footer_checksum", pa.string()),
        ("first_key", pa.binary()),
        ("last_key", pa.binary()),
        ("prev_max", pa.int64()),
        ("schema_id", pa.int64()),
        ("adopted", pa.string()),
        ("path_columns", pa.list_(pa.int64())),
        ("order", pa.list_(pa.int64())),
        ("curve", pa.string()),
        ("granules", pa.list_(_GRANULE)),
    ]
)

_AS_THEY_ARE = ("rows", "bytes", "footer_bytes", "footer_checksum", "first_key", "last_key", "prev_max", "schema_id", "adopted")


def encode_files(infos: Iterable[ChunksetInfo]) -> pa.Table:
    """The records of one commit, sorted by key."""
    rows = sorted((_row(info) for info in infos), key=lambda row: str(row[KEY]))
    return pa.Table.from_pylist(rows, schema=FILES_SCHEMA)


def _row(info: ChunksetInfo) -> dict[str, object]:
    return {
        KEY: file_key(info.partition, info.file_name),
        IS_DELETED: False,
        "id": info.id,
        "partition": info.partition,
        "partition_values": list(info.partition_values),
        "rows": info.rows,
        "bytes": info.bytes,
        "footer_bytes": info.footer_bytes,
        "footer_checksum": info.footer_checksum,
        "first_key": info.first_key,
        "last_key": info.last_key,
        "prev_max": info.prev_max,
        "schema_id": info.schema_id,
        "adopted": info.adopted,
        "path_columns": list(info.path_columns),
        "order": list(info.order),
        "curve": info.curve if info.order else None,
        "granules": [{"rows": g.rows, "offset": g.offset, "bytes": g.bytes} for g in info.granules],
    }


def decode_files(records: pa.RecordBatch) -> list[ChunksetInfo]:
    """The chunksets in `records`; tombstones are the caller's to drop first."""
    return [_info(row) for row in records.to_pylist()]


def _info(row: dict[str, object]) -> ChunksetInfo:
    # Runs of older writers lack the younger columns.
    kept = {name: row.get(name) for name in _AS_THEY_ARE}
    return ChunksetInfo(
        id=ChunksetId(str(row["id"])),
        partition=PartitionPath(str(row["partition"])),
        partition_values=tuple(row["partition_values"]),  # type: ignore[arg-type]
        path_columns=tuple(row.get("path_columns") or ()),  # type: ignore[arg-type]
        order=tuple(row.get("order") or ()),  # type: ignore[arg-type]
        curve=row.get("curve") or "linear",  # type: ignore[arg-type]
        granules=tuple(Granule(**granule) for granule in row["granules"]),  # type: ignore[attr-defined]
        **kept,  # type: ignore[arg-type]
    )
