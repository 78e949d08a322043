"""Runs: Arrow IPC files sorted by key, in small blocks, with a sparse key index in the schema's metadata.

Any Arrow reader can open one. Ours reads the header once, then one block for a key or a prefix.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import pyarrow as pa

from needlefish.errors import CorruptError
from needlefish.format.checksum import checksum
from needlefish.format.envelope import seal, unseal
from needlefish.format.log_entry import ROOT
from needlefish.model.log import FORMAT, RunId, RunRef
from needlefish.model.point_index import PointKind

KEY = "key"
IS_DELETED = "is_deleted"

_METADATA = b"needlefish.run"
_MAGIC = b"ARROW1\x00\x00"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")
_ALONE = pa.ipc.IpcReadOptions(use_threads=False)
# A block is what one lookup reads: some tens of KiB of chunkset infos.
BLOCK_RECORDS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """The sparse index: block i starts at `offsets[i]` bytes after the header with `first_keys[i]`."""

    format: int
    kind: str
    records: int
    first_keys: tuple[str, ...]
    offsets: tuple[int, ...]
    checksums: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRun:
    """A run ready to be put."""

    data: bytes
    header_bytes: int
    header_checksum: str
    footer_checksum: str
    records: int


def run_path(kind: str, run_id: RunId) -> str:
    return f"{ROOT}metadata/{kind}/{run_id}.arrow"


def index_run_path(run_kind: str, kind: PointKind, run_id: RunId) -> str:
    """Where an index run lies; `run_kind` has the name of its index."""
    return f"{ROOT}{run_kind}/{run_id}.{kind}"


def path_of(ref: RunRef) -> str:
    """Where the run of a reference lies, of whatever kind."""
    return run_path(ref.kind, ref.id) if ref.point is None else index_run_path(ref.kind, ref.point.kind, ref.id)


def encode_run(kind: str, records: pa.Table, block_records: int = BLOCK_RECORDS) -> EncodedRun:
    """`records` are sorted by their unique `key`."""
    records = records.combine_chunks()
    return encode_blocks(kind, records.schema, records.to_batches(max_chunksize=block_records) if records.num_rows else [])


def encode_blocks(kind: str, schema: pa.Schema, blocks: Iterable[pa.RecordBatch]) -> EncodedRun:
    """A run of these blocks, taken one by one; memory holds the compressed bytes, never all records.

    The index in front needs the blocks' lengths and the file's end their places, so that blocks are encoded, then copied.
    """
    schema = schema.remove_metadata()
    encoded: list[bytes] = []
    first_keys: list[str] = []
    records = 0
    for block in blocks:
        encoded.append(_message(schema, block))
        first_keys.append(block[KEY][0].as_py())
        records += block.num_rows
    header = RunHeader(
        format=FORMAT,
        kind=kind,
        records=records,
        first_keys=tuple(first_keys),
        offsets=tuple(accumulate(map(len, encoded), initial=0)),
        checksums=tuple(map(checksum, encoded)),
    )
    data, header_bytes = _file(schema.with_metadata({_METADATA: seal(header)}), encoded)
    return EncodedRun(
        data=data,
        header_bytes=header_bytes,
        header_checksum=checksum(data[:header_bytes]),
        footer_checksum=checksum(data[header_bytes + header.offsets[-1] :]),
        records=records,
    )


def _message(schema: pa.Schema, block: pa.RecordBatch) -> bytes:
    """The block as one encapsulated IPC message: what a file of this block alone has between its schema and its end."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=_OPTIONS) as writer:
        writer.write_batch(block.replace_schema_metadata(None))
        end = sink.tell()
    return bytes(sink.getvalue()[_header_bytes(schema) : end].to_pybytes())


def _file(schema: pa.Schema, blocks: list[bytes]) -> tuple[bytes, int]:
    """The Arrow file with these blocks, and where they begin."""
    sink = pa.BufferOutputStream()
    end = _header_bytes(schema)
    with pa.ipc.new_file(sink, schema, options=_OPTIONS) as writer:
        for block in blocks:
            writer.write_batch(pa.ipc.read_record_batch(pa.py_buffer(block), schema))
            end += len(block)
            assert sink.tell() == end, "a block compressed again has the same bytes"
    return sink.getvalue().to_pybytes(), _header_bytes(schema)


def _header_bytes(schema: pa.Schema) -> int:
    return len(_MAGIC) + int(schema.serialize().size)


def decode_header(data: bytes, expected: str, path: str) -> tuple[RunHeader, pa.Schema]:
    """`data` is the first `header_bytes` of the run; `expected` covers the schema too, which no seal does."""
    if checksum(data) != expected:
        raise CorruptError(f"{path}: the header does not fit its checksum")
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data[len(_MAGIC) :]))
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{path}: the header cannot be read: {error}") from error
    sealed = (schema.metadata or {}).get(_METADATA)
    if sealed is None:
        raise CorruptError(f"{path}: an Arrow file, but not a run")
    return unseal(sealed, RunHeader, path), schema.remove_metadata()


def decode_block(data: bytes, header: RunHeader, schema: pa.Schema, number: int, path: str) -> pa.RecordBatch:
    """Block `number`, from its exact bytes."""
    if checksum(data) != header.checksums[number]:
        raise CorruptError(f"{path}: block {number} does not fit its checksum")
    # As a stream, since only a stream can be told to leave Arrow's threads alone: they cost more than such a block does.
    return pa.ipc.open_stream(pa.py_buffer(b"".join((schema.serialize(), data))), options=_ALONE).read_next_batch()
