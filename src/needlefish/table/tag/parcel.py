"""Parcels: what one task sends to the task that reads a file. One row each, so that nobody handles single keys on the way."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from needlefish.model.chunkset import ChunksetInfo

PARCEL_SCHEMA = pa.schema([("file", pa.string()), ("info", pa.binary()), ("rows", pa.binary())])
# The same for engines that want words.
PARCEL_TEXT = "file string, info binary, rows binary"

# Parcels handed over together.
_BATCH_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Keys that may be in the chunkset `info`, or rows that have been found already and want nothing but a lift.

    Parcels of the same `file` meet in one task.
    """

    file: str
    info: ChunksetInfo | None
    rows: pa.Table


def parcel_batches(parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
    waiting: list[dict[str, object]] = []
    size = 0
    for parcel in parcels:
        rows = _packed(parcel.rows)
        waiting.append({"file": parcel.file, "info": None if parcel.info is None else msgspec.msgpack.encode(parcel.info), "rows": rows})
        size += len(rows)
        if size >= _BATCH_BYTES:
            yield pa.RecordBatch.from_pylist(waiting, schema=PARCEL_SCHEMA)
            waiting, size = [], 0
    if waiting:
        yield pa.RecordBatch.from_pylist(waiting, schema=PARCEL_SCHEMA)


def parcels_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
    for batch in batches:
        for file, info, rows in zip(*batch.columns, strict=True):
            known = None if not info.is_valid else msgspec.msgpack.decode(info.as_py(), type=ChunksetInfo)
            yield Parcel(file=file.as_py(), info=known, rows=pa.ipc.open_stream(rows.as_buffer()).read_all())


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
