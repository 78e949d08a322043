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
_BODY_BYTES = 28
_HASH64_TEXT = 12


@dataclass(frozen=True, slots=True)
class GranuleRef:
    """A granule of a chunkset, or the chunkset whole. `key` is the chunkset's key in the `files` runs."""

    key: str
    granule: int


def encode_granules(granules: Sequence[GranuleRef]) -> bytes:
    """Records for ordinals from 0."""
    table = np.zeros(len(granules), _RECORD)
    for ordinal, found in enumerate(granules):
        body = _packed(found.key) + found.granule.to_bytes(4, "little")
        table[ordinal] = (body[:24], found.granule, _checksum(body))
    return table.tobytes()


def decode_granules(data: bytes, path: str) -> list[GranuleRef]:
    """The granules of whole records; `path` is the object that errors name."""
    if len(data) % RECORD_BYTES:
        raise CorruptError(f"{path}: a granule table of {len(data)} bytes ends inside a record")
    return [_decoded(data[at : at + RECORD_BYTES], path) for at in range(0, len(data), RECORD_BYTES)]


def _decoded(record: bytes, path: str) -> GranuleRef:
    body = record[:_BODY_BYTES]
    if _checksum(body) != int.from_bytes(record[_BODY_BYTES:], "little"):
        raise CorruptError(f"{path}: a record of the granule table does not fit its checksum")
    return GranuleRef(_text(body[:24]), int.from_bytes(body[24:], "little"))


def chunkset_keys(data: bytes) -> NDArray[np.void]:
    """The chunksets' packed keys, one for each record: to compare many without making texts of them."""
    return np.frombuffer(data, _RECORD)["key"]


def _packed(key: str) -> bytes:
    return base64.b64decode(key[:_HASH64_TEXT]) + base64.b64decode(key[_HASH64_TEXT:])


def _text(packed: bytes) -> str:
    return base64.b64encode(packed[:8]).decode() + base64.b64encode(packed[8:]).decode()


def _checksum(body: bytes) -> int:
    return xxhash.xxh64_intdigest(body) & 0xFFFF_FFFF
