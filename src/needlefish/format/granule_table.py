"""The granule table of an index run: what its ordinals stand for. Normative text: spec/granules.md.

Records of one length, each with a checksum of its own, so that an ordinal is resolved by reading 32 bytes.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from needlefish.errors import CorruptError

RECORD_BYTES = 32
# Stands for all granules of a file, where an index has one entry for each file.
WHOLE_FILE = 0xFFFF_FFFF

# Of a `files` key the two hashes, without their base64.
_RECORD = np.dtype([("key", "V24"), ("granule", "<u4"), ("checksum", "<u4")])
# The same, with keys as words to compare.
_KEY_WORDS = np.dtype([("words", "<u8", (3,)), ("rest", "V8")])
_BODY_BYTES = 28
_HASH64_TEXT = 12


@dataclass(frozen=True, slots=True)
class GranuleRef:
    """A granule of a chunkset, or the chunkset whole. `key` is the chunkset's key in the `files` runs."""

    key: str
    granule: int


def encode_granules(granules: Sequence[GranuleRef]) -> bytes:
    """Records for ordinals from 0. A microsecond each: neighbours are mostly of one chunkset, whose key is packed once."""
    records: list[bytes] = []
    key, packed = "", b""
    for found in granules:
        if found.key != key:
            key, packed = found.key, _packed(found.key)
        body = packed + found.granule.to_bytes(4, "little")
        records += (body, _checksum(body).to_bytes(4, "little"))
    return b"".join(records)


def decode_granules(data: bytes, path: str) -> list[GranuleRef]:
    """The granules of whole records; `path` is the object that errors name."""
    if len(data) % RECORD_BYTES:
        raise CorruptError(f"{path}: a granule table of {len(data)} bytes ends inside a record")
    return [_decoded(data[at : at + RECORD_BYTES], path) for at in range(0, len(data), RECORD_BYTES)]


def check_granules(data: bytes, path: str) -> None:
    """`decode_granules` without its results, for tables of a million records."""
    if len(data) % RECORD_BYTES:
        raise CorruptError(f"{path}: a granule table of {len(data)} bytes ends inside a record")
    view = memoryview(data)
    wanted = np.frombuffer(data, _RECORD)["checksum"]
    found = [xxhash.xxh64_intdigest(view[at : at + _BODY_BYTES]) & 0xFFFF_FFFF for at in range(0, len(data), RECORD_BYTES)]
    if not np.array_equal(wanted, np.array(found, np.uint32)):
        raise CorruptError(f"{path}: a record of the granule table does not fit its checksum")


def chunkset_ranges(data: bytes) -> tuple[list[str], NDArray[np.int64]]:
    """The chunksets of neighbouring records, and how many records each of them has: a chunkset may come more than once."""
    words = np.frombuffer(data, _KEY_WORDS)["words"]
    first = np.ones(len(words), np.bool_)
    np.any(words[1:] != words[:-1], axis=1, out=first[1:])
    starts = np.flatnonzero(first)
    return [_text(words[start].tobytes()) for start in starts.tolist()], np.diff(np.append(starts, len(words)))


def _decoded(record: bytes, path: str) -> GranuleRef:
    body = record[:_BODY_BYTES]
    if _checksum(body) != int.from_bytes(record[_BODY_BYTES:], "little"):
        raise CorruptError(f"{path}: a record of the granule table does not fit its checksum")
    return GranuleRef(_text(body[:24]), int.from_bytes(body[24:], "little"))


def chunkset_keys(data: bytes) -> NDArray[np.void]:
    """The chunksets' packed keys, one for each record: to compare many without making texts of them."""
    return np.frombuffer(data, _RECORD)["key"]


def kept_granules(data: bytes, kept: NDArray[np.bool_]) -> bytes:
    """The records that are kept, as they are."""
    return np.frombuffer(data, _RECORD)[kept].tobytes()


def _packed(key: str) -> bytes:
    return base64.b64decode(key[:_HASH64_TEXT]) + base64.b64decode(key[_HASH64_TEXT:])


def _text(packed: bytes) -> str:
    return base64.b64encode(packed[:8]).decode() + base64.b64encode(packed[8:]).decode()


def _checksum(body: bytes) -> int:
    return xxhash.xxh64_intdigest(body) & 0xFFFF_FFFF
