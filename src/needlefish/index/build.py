"""Putting a run: records in, a reference for the log out."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from needlefish.format.run import BLOCK_RECORDS, EncodedRun, encode_blocks, run_path
from needlefish.model.log import RunId, RunRef
from needlefish.runtime import Runtime
from needlefish.store import Store

# What one lookup reads at most, unless a single record is larger: filters are, chunkset infos are far from it.
BLOCK_BYTES = 64 * 1024
# Records waiting to be cut into blocks: several blocks' worth, so that few come out short.
_WAITING_ROWS = 4 * BLOCK_RECORDS
_WAITING_BYTES = 16 * BLOCK_BYTES


def put_run(store: Store, kind: str, records: pa.Table, runtime: Runtime, version: int | None = None) -> RunRef:
    """Writes sorted `records` as a new run. A crash after it leaves an orphan that no version names."""
    blocks = records.combine_chunks().to_batches(max_chunksize=_block_records(records)) if records.num_rows else []
    return _put(store, kind, encode_blocks(kind, records.schema, blocks), runtime, version)


def put_stream(
    store: Store, kind: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], runtime: Runtime, version: int | None = None
) -> RunRef:
    """The same for sorted records that arrive a few at a time; columns that a batch lacks are null."""
    return _put(store, kind, encode_blocks(kind, schema, _blocks(schema, batches)), runtime, version)


def _put(store: Store, kind: str, encoded: EncodedRun, runtime: Runtime, version: int | None) -> RunRef:
    run_id = RunId(runtime.new_id())
    store.put(run_path(kind, run_id), encoded.data)
    return RunRef(
        id=run_id,
        kind=kind,
        bytes=len(encoded.data),
        header_bytes=encoded.header_bytes,
        header_checksum=encoded.header_checksum,
        records=encoded.records,
        version=version,
        footer_checksum=encoded.footer_checksum,
    )


def _blocks(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(_conformed(batch, schema))
        if sum(part.num_rows for part in waiting) >= _WAITING_ROWS or sum(part.nbytes for part in waiting) >= _WAITING_BYTES:
            *full, last = _cut(waiting)
            yield from full
            waiting = [last]
    yield from _cut(waiting)


def _cut(parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    together = pa.Table.from_batches(parts).combine_chunks() if parts else None
    if together is None or not together.num_rows:
        return []
    return list(together.to_batches(max_chunksize=_block_records(together)))


def _conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = set(batch.schema.names)
    columns = [batch[field.name] if field.name in names else pa.nulls(batch.num_rows, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _block_records(records: pa.Table) -> int:
    if not records.num_rows:
        return BLOCK_RECORDS
    each = max(1, records.nbytes // records.num_rows)
    return int(max(1, min(BLOCK_RECORDS, BLOCK_BYTES // each)))
