"""Reading what is left of a damaged run: block after block, the bad ones named and stepped over."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from needlefish.errors import CorruptError
from needlefish.format.run import RunHeader, decode_block, decode_header, run_path
from needlefish.model.log import RunRef
from needlefish.store import ByteRange, Store

# Blocks in memory at once.
_REQUEST_BLOCKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """One block: its records, or what is wrong with it."""

    number: int
    records: pa.RecordBatch | None
    wrong: str | None


def read_header(store: Store, ref: RunRef) -> tuple[RunHeader, pa.Schema]:
    """The header anew, whatever a handle may remember of it; without it nothing of a run can be read."""
    path = run_path(ref.kind, ref.id)
    header, schema = decode_header(store.get_range(path, ByteRange(0, ref.header_bytes)), ref.header_checksum, path)
    if not len(header.first_keys) == len(header.checksums) == len(header.offsets) - 1:
        raise CorruptError(f"{path}: the index does not name each block once")
    return header, schema


def salvage(store: Store, ref: RunRef, header: RunHeader, schema: pa.Schema) -> Iterator[Salvaged]:
    """Every block of the run."""
    path = run_path(ref.kind, ref.id)
    count = len(header.first_keys)
    for first in range(0, count, _REQUEST_BLOCKS):
        numbers = range(first, min(count, first + _REQUEST_BLOCKS))
        spans = [ByteRange(ref.header_bytes + header.offsets[n], header.offsets[n + 1] - header.offsets[n]) for n in numbers]
        for number, data in zip(numbers, store.get_ranges(path, spans), strict=True):
            yield _salvaged(data, header, schema, number, path)


def _salvaged(data: bytes, header: RunHeader, schema: pa.Schema, number: int, path: str) -> Salvaged:
    try:
        return Salvaged(number=number, records=decode_block(data, header, schema, number, path), wrong=None)
    except (CorruptError, pa.ArrowException, OSError) as error:
        return Salvaged(number=number, records=None, wrong=str(error).removeprefix(f"{path}: "))
