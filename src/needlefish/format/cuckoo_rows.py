"""Bucket rows of cuckoo runs: fingerprints packed without gaps, and a checksum. Normative text: spec/cuckoo.md.

The checksum is XXH3, which keeps up with memory where XXH64 takes five times as long: a row of a million filters has
megabytes. Its seed is the bucket's number, so that a row from another place is seen as well.
"""

from collections.abc import Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from needlefish.errors import CorruptError

CHECKSUM_BYTES = 4

Cells = NDArray[np.unsignedinteger]
Rows = NDArray[np.uint8]


def row_bytes_for(slots: int, bits: int) -> int:
    """The length of a row with so many slots, those of all filters together."""
    return -(-slots * bits // 8) + CHECKSUM_BYTES


def pack_rows(cells: Cells, bits: int, first_bucket: int) -> Rows:
    """Rows ready for the file: `cells` has the slots of one bucket in each row, from `first_bucket` on."""
    count, slots = cells.shape
    rows = np.zeros((count, row_bytes_for(slots, bits)), np.uint8)
    rows[:, :-CHECKSUM_BYTES] = _packed(np.ascontiguousarray(cells), bits)
    sums = _checksums(rows, range(first_bucket, first_bucket + count))
    rows[:, -CHECKSUM_BYTES:] = sums[:, None].view(np.uint8)
    return rows


def rows_of(data: bytes, row_bytes: int, count: int, path: str) -> Rows:
    """The bytes of `count` neighbouring rows, one in each row."""
    if len(data) != count * row_bytes:
        raise CorruptError(f"{path}: {len(data)} bytes where {count} bucket rows have {count * row_bytes}; the file is cut off")
    return np.frombuffer(data, np.uint8).reshape(count, row_bytes)


def check_rows(rows: Rows, buckets: NDArray[np.int64], path: str) -> None:
    """Each row against its checksum, before anything in it is believed."""
    expected = np.ascontiguousarray(rows[:, -CHECKSUM_BYTES:]).view("<u4")[:, 0]
    wrong = np.flatnonzero(_checksums(rows, buckets.tolist()) != expected)
    if len(wrong):
        raise CorruptError(f"{path}: the row of bucket {buckets[wrong[0]]} does not fit its checksum")


def checked_row(data: bytes, row_bytes: int, bucket: int, path: str) -> Rows:
    """`rows_of` and `check_rows` for a single row, in a third of the time."""
    rows = rows_of(data, row_bytes, 1, path)
    body = memoryview(data)[:-CHECKSUM_BYTES]
    if xxhash.xxh3_64_intdigest(body, seed=bucket) & 0xFFFF_FFFF != int.from_bytes(data[-CHECKSUM_BYTES:], "little"):
        raise CorruptError(f"{path}: the row of bucket {bucket} does not fit its checksum")
    return rows


def unpack_rows(rows: Rows, bits: int, slots: int) -> Cells:
    """The fingerprints of each row. In place where they are numbers of their own and memory lies right for it."""
    if bits in (12, 24):
        return _spread(np.ascontiguousarray(rows), bits, slots)
    width = bits // 8
    return rows[:, : slots * width].view(f"<u{width}") if slots else np.zeros((len(rows), 0), f"<u{width}")


def _packed(cells: Cells, bits: int) -> Rows:
    count, slots = cells.shape
    if bits not in (12, 24):
        width = bits // 8
        return cells.astype(f"<u{width}", copy=False).view(np.uint8) if slots else np.zeros((count, 0), np.uint8)
    if bits == 12:
        # Two fingerprints make three bytes; a last one without a partner has a byte and a half.
        padded = np.pad(cells, ((0, 0), (0, slots % 2))).astype(np.uint32)
        cells = padded[:, ::2] | padded[:, 1::2] << np.uint32(12)
    threes = np.ascontiguousarray(cells, "<u4").view(np.uint8).reshape(count, -1, 4)[:, :, :3]
    return threes.reshape(count, -1)[:, : -(-slots * bits // 8)]


def _spread(rows: Rows, bits: int, slots: int) -> Cells:
    """Reads four bytes at every third: the fourth of the last is one of the checksum's."""
    count, row_bytes = rows.shape
    threes = slots if bits == 24 else -(-slots // 2)
    words: NDArray[np.uint32] = np.ndarray((count, threes), "<u4", rows, strides=(row_bytes, 3))
    if bits == 24:
        return words & np.uint32(0xFF_FFFF)
    cells = np.empty((count, 2 * threes), np.uint16)
    cells[:, ::2] = words & np.uint32(0xFFF)
    cells[:, 1::2] = words >> np.uint32(12) & np.uint32(0xFFF)
    return cells[:, :slots]


def _checksums(rows: Rows, buckets: Sequence[int]) -> NDArray[np.uint32]:
    row_bytes = rows.shape[1]
    flat = np.ascontiguousarray(rows).reshape(-1).data
    bodies = (flat[start : start + row_bytes - CHECKSUM_BYTES] for start in range(0, len(flat), row_bytes))
    sums = [xxhash.xxh3_64_intdigest(body, seed=bucket) & 0xFFFF_FFFF for body, bucket in zip(bodies, buckets, strict=True)]
    return np.array(sums, "<u4")
