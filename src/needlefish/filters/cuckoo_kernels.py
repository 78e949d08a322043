"""Building one aligned cuckoo filter, compiled. Importing this module imports numba.

The steps are those of `cuckoo_plain`, number for number: both give the same table. A filter of 100,000 keys fills
a third of a core's second-level cache, so that reading two buckets for each key is what a key costs.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from needlefish.filters.compiling import Kernel, kernel
from needlefish.filters.cuckoo_hash import SPREAD
from needlefish.filters.cuckoo_plain import MAX_KICKS, WALK_ADD, WALK_MULTIPLY

_HASHES = types.Array(types.uint64, 1, "C", readonly=True)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFF_FFFF)
_SPREAD = np.uint64(SPREAD)
_ONE = np.uint64(1)
_MULTIPLY, _ADD = np.uint64(WALK_MULTIPLY), np.uint64(WALK_ADD)


@njit
def _partner(bucket: Any, fingerprint: Any, buckets: Any) -> Any:
    turned = (((fingerprint * _SPREAD) >> _HALF) * buckets) >> _HALF
    return turned - bucket if turned >= bucket else turned + buckets - bucket


@njit
def _held(table: Any, at: Any, slots: Any, fingerprint: Any) -> Any:
    """How many slots are taken, or -1 if the fingerprint is in one; slots are taken from the left."""
    for slot in range(slots):
        found = table[at + slot]
        if found == fingerprint:
            return -1
        if found == 0:
            return slot
    return slots


@njit
def _settle(table: Any, slots: Any, first: Any, second: Any, fingerprint: Any) -> Any:
    """Puts the fingerprint into the emptier bucket. 1 if it went in, 0 if it was there, -1 if both are full."""
    here = _held(table, np.int64(first) * slots, slots, fingerprint)
    if here < 0:
        return 0
    there = _held(table, np.int64(second) * slots, slots, fingerprint)
    if there < 0:
        return 0
    if here <= there and here < slots:
        table[np.int64(first) * slots + here] = fingerprint
    elif there < slots:
        table[np.int64(second) * slots + there] = fingerprint
    else:
        return -1
    return 1


def _fill(table: Any, buckets: Any, slots: Any, span: Any, hashes: Any, homeless: Any, out: Any) -> None:
    """Puts every hash that has room; the rows of others go to `homeless`. `out`: how many were put, how many were not."""
    wide = np.uint64(buckets)
    put = left = 0
    for row in range(hashes.size):
        hashed = hashes[row]
        first = ((hashed >> _HALF) * wide) >> _HALF
        fingerprint = (((hashed & _LOW) * span) >> _HALF) + _ONE
        done = _settle(table, slots, first, _partner(first, fingerprint, wide), fingerprint)
        if done > 0:
            put += 1
        elif done < 0:
            homeless[left] = row
            left += 1
    out[0], out[1] = put, left


@njit
def _wander(table: Any, wide: Any, slots: Any, out: Any) -> Any:
    """Puts the fingerprint of `out` in another one's place, that one into its other bucket, and so on. Whether it ended."""
    bucket, fingerprint, walk = out[1], out[2], out[3]
    for _ in range(MAX_KICKS):
        walk = walk * _MULTIPLY + _ADD
        at = np.int64(bucket) * slots + np.int64(((walk >> _HALF) * np.uint64(slots)) >> _HALF)
        moved = np.uint64(table[at])
        table[at] = fingerprint
        fingerprint = moved
        bucket = _partner(bucket, fingerprint, wide)
        room = _held(table, np.int64(bucket) * slots, slots, fingerprint)
        if room < slots:
            table[np.int64(bucket) * slots + room] = fingerprint
            out[1], out[2], out[3] = 0, 0, walk
            return True
    out[1], out[2], out[3] = bucket, fingerprint, walk
    return False


def _kick(table: Any, buckets: Any, slots: Any, span: Any, hashes: Any, homeless: Any, out: Any) -> None:
    """Finds room for the homeless by moving others; stops at the first without.

    `out`: rows done, the bucket and the fingerprint that found no room (0 if all did), and the walk, which it comes with.
    """
    wide = np.uint64(buckets)
    for done in range(homeless.size):
        hashed = hashes[homeless[done]]
        bucket = ((hashed >> _HALF) * wide) >> _HALF
        fingerprint = (((hashed & _LOW) * span) >> _HALF) + _ONE
        out[0] = done + 1
        if _settle(table, slots, bucket, _partner(bucket, fingerprint, wide), fingerprint) < 0:
            out[1], out[2] = bucket, fingerprint
            if not _wander(table, wide, slots, out):
                return


@cache
def fill_of(cell: "np.dtype[np.unsignedinteger]") -> Kernel:
    """`_fill` for tables of this type; an index has one, and the others are never compiled."""
    cells = from_dtype(cell)[::1]
    return kernel(types.void(cells, types.int64, types.int64, types.uint64, _HASHES, types.int64[::1], types.int64[::1]))(_fill)


@cache
def kick_of(cell: "np.dtype[np.unsignedinteger]") -> Kernel:
    """`_kick` for tables of this type."""
    cells = from_dtype(cell)[::1]
    return kernel(types.void(cells, types.int64, types.int64, types.uint64, _HASHES, types.int64[::1], types.uint64[::1]))(_kick)
