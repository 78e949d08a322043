"""Cuckoo runs: where everything lies in the file, the filter table and the trailer. Normative text: spec/cuckoo.md.

Bucket rows come first and have one length, so that every offset follows from what the log says of the run.
"""

from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from needlefish.errors import CorruptError
from needlefish.format.checksum import checksum
from needlefish.format.envelope import seal, unseal
from needlefish.format.granule_table import RECORD_BYTES
from needlefish.model.point_index import PointRun

# States of a filter. Do not renumber: they are in every run.
KEPT = 0
REMOVED = 1
# Too many keys for the slots that a byte can count: the filter has none, and may hold every value.
EVERYTHING = 2

_MAGIC = b"NFCK"
_LENGTH_BYTES = 4
_TABLE_CHECKSUM_BYTES = 8

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class CuckooTrailer:
    """What makes a cuckoo run readable without a log."""

    format: int
    kind: str
    records: int
    point: PointRun


@dataclass(frozen=True, slots=True)
class Region:
    """`length` bytes of the file from `start`."""

    start: int
    length: int


def rows_region(point: PointRun, first: int, end: int) -> Region:
    """The rows of the buckets from `first` up to `end`, which this file has."""
    assert point.first <= first <= end <= point.end, f"buckets {first} to {end} of a file with {point.first} to {point.end}"
    return Region((first - point.first) * point.row_bytes, (end - first) * point.row_bytes)


def granules_region(point: PointRun, first: int = 0, end: int | None = None) -> Region:
    """The records of the granule table for these ordinals."""
    end = point.granules if end is None else end
    return Region((point.end - point.first) * point.row_bytes + first * RECORD_BYTES, (end - first) * RECORD_BYTES)


def filters_region(point: PointRun) -> Region:
    """The slots and the states of all filters, and their checksum."""
    start = granules_region(point)
    return Region(start.start + start.length, 2 * point.granules + _TABLE_CHECKSUM_BYTES)


def encode_filters(slots: Bytes, states: Bytes) -> bytes:
    data = slots.astype(np.uint8).tobytes() + states.astype(np.uint8).tobytes()
    return data + _table_checksum(data)


def decode_filters(data: bytes, filters: int, path: str) -> tuple[Bytes, Bytes]:
    """The slots and the states of so many filters."""
    body, expected = data[:-_TABLE_CHECKSUM_BYTES], data[-_TABLE_CHECKSUM_BYTES:]
    if len(body) != 2 * filters or _table_checksum(body) != expected:
        raise CorruptError(f"{path}: the filter table does not fit its checksum")
    table = np.frombuffer(body, np.uint8)
    return table[:filters], table[filters:]


def encode_trailer(trailer: CuckooTrailer) -> bytes:
    """The sealed record, its length, and the magic that ends the file."""
    sealed = seal(trailer)
    return sealed + len(sealed).to_bytes(_LENGTH_BYTES, "little") + _MAGIC


def decode_trailer(data: bytes, expected: str, path: str) -> CuckooTrailer:
    """`data` is the last `header_bytes` of the file, `expected` their checksum in the log."""
    if checksum(data) != expected:
        raise CorruptError(f"{path}: the trailer does not fit its checksum")
    sealed = data[: -_LENGTH_BYTES - len(_MAGIC)]
    if data[len(sealed) :] != len(sealed).to_bytes(_LENGTH_BYTES, "little") + _MAGIC:
        raise CorruptError(f"{path}: does not end like a cuckoo run")
    return unseal(sealed, CuckooTrailer, path)


def _table_checksum(data: bytes) -> bytes:
    return xxhash.xxh64_intdigest(data).to_bytes(_TABLE_CHECKSUM_BYTES, "little")
