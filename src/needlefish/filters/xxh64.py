"""XXH64 with seed 0 over plain values, without a compiler.

Values of 4 and 8 bytes are hashed by NumPy as whole arrays; all others one by one by the `xxhash` package. The compiled
kernels in `xxh64_kernels` give the same numbers faster.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from needlefish.filters.plain_values import PlainValues

Hashes = NDArray[np.uint64]

# The five primes of the xxHash specification.
PRIME_1 = 0x9E3779B185EBCA87
PRIME_2 = 0xC2B2AE3D27D4EB4F
PRIME_3 = 0x165667B19E3779F9
PRIME_4 = 0x85EBCA77C2B2AE63
PRIME_5 = 0x27D4EB2F165667C5

# Nanoseconds per value of the paths in this file, measured by benchmarks/bloom.py; they only steer the choice of path.
_VECTOR_NS = 15
_LOOP_NS = 200
_ROW_PART_NS = 450


def cost_ns(values: PlainValues) -> int:
    """What hashing `values` costs here."""
    return values.count * (_VECTOR_NS if values.width in (4, 8) else _LOOP_NS)


def rows_cost_ns(parts: Sequence[PlainValues]) -> int:
    """What joining and hashing the parts of composite keys costs here."""
    return sum(part.count for part in parts) * _ROW_PART_NS


def hash_plain(values: PlainValues) -> Hashes:
    """One hash per value, whatever lies in the slots of nulls."""
    if values.width == 8:
        return _hash_8(values.data.view("<u8"))
    if values.width == 4:
        return _hash_4(values.data.view("<u4").astype(np.uint64))
    return hash_parts(values.parts())


def hash_parts(parts: Iterable[bytes]) -> Hashes:
    """One hash per byte string."""
    return np.fromiter(map(xxhash.xxh64_intdigest, parts), np.uint64)


def _hash_8(words: Hashes) -> Hashes:
    mixed = _rotate(words * np.uint64(PRIME_2), 31) * np.uint64(PRIME_1)
    start = np.uint64(PRIME_5 + 8)
    return _avalanche(_rotate(start ^ mixed, 27) * np.uint64(PRIME_1) + np.uint64(PRIME_4))


def _hash_4(words: Hashes) -> Hashes:
    start = np.uint64(PRIME_5 + 4)
    return _avalanche(_rotate(start ^ (words * np.uint64(PRIME_1)), 23) * np.uint64(PRIME_2) + np.uint64(PRIME_3))


def _rotate(words: Hashes, bits: int) -> Hashes:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _avalanche(words: Hashes) -> Hashes:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(PRIME_2)
    words = (words ^ (words >> np.uint64(29))) * np.uint64(PRIME_3)
    return words ^ (words >> np.uint64(32))
