"""Where a hash lives in an aligned cuckoo filter: two buckets and a fingerprint. Normative text: spec/cuckoo.md.

The bucket comes from the upper half of the hash and the fingerprint from the lower one. They share no bit, so that
the false positive rate is the same for every number of buckets.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from needlefish.errors import InvalidError

Hashes = NDArray[np.uint64]
Buckets = NDArray[np.int64]

# Do not change: they decide where everything lies. The multiplier is 2^64 divided by the golden ratio, made odd.
BITS = (8, 12, 16, 24, 32)
SPREAD = 0x9E37_79B9_7F4A_7C15
# Products of a bucket count and half a hash stay below 2^64.
MAX_BUCKETS = 2**31

_HALF = np.uint64(32)
_LOW = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Places:
    """For each hash its two buckets, which may be one and the same, and its fingerprint, which is never 0."""

    first: Buckets
    second: Buckets
    fingerprints: NDArray[np.uint32]


def check_layout(buckets: int, bits: int) -> None:
    """Both are the caller's to choose, once for each index."""
    if bits not in BITS:
        raise InvalidError(f"bits={bits}: fingerprints have {', '.join(map(str, BITS[:-1]))} or {BITS[-1]} bits; choose one of these")
    if not 1 <= buckets <= MAX_BUCKETS:
        raise InvalidError(f"buckets={buckets}: an aligned cuckoo filter has 1 to {MAX_BUCKETS} buckets; see buckets_for")


def fingerprint_type(bits: int) -> "np.dtype[np.unsignedinteger]":
    """The narrowest number that holds a fingerprint."""
    return np.dtype(np.uint8 if bits == 8 else np.uint16 if bits <= 16 else np.uint32)


def places_of(hashes: Hashes, buckets: int, bits: int) -> Places:
    """Multiplication scales a half to a range, where a remainder would cost twenty times as much."""
    wide = np.uint64(buckets)
    first = (((hashes >> _HALF) * wide) >> _HALF).astype(np.int64)
    fingerprints = (((hashes & np.uint64(_LOW)) * np.uint64((1 << bits) - 1)) >> _HALF) + np.uint64(1)
    turned = (((fingerprints * np.uint64(SPREAD)) >> _HALF) * wide >> _HALF).astype(np.int64)
    second = turned - first
    second[second < 0] += buckets
    return Places(first, second, fingerprints.astype(np.uint32))


def place_of(hashed: int, buckets: int, bits: int) -> tuple[int, int, int]:
    """`places_of` for one hash, in Python's own integers: both buckets and the fingerprint."""
    first = ((hashed >> 32) * buckets) >> 32
    fingerprint = (((hashed & _LOW) * ((1 << bits) - 1)) >> 32) + 1
    return first, partner_of(first, fingerprint, buckets), fingerprint


def partner_of(bucket: int, fingerprint: int, buckets: int) -> int:
    """The other bucket of a fingerprint; the partner of the partner is the bucket itself."""
    turned = (((fingerprint * SPREAD & 0xFFFF_FFFF_FFFF_FFFF) >> 32) * buckets) >> 32
    return (turned - bucket) % buckets
