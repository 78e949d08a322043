"""Filling a cuckoo filter in plain Python: the readable version, and the one without numba.

Tables are flat: bucket i has the slots from i * slots on, taken from the left, and 0 is an empty one. The walk that
chooses whom to move is a linear congruential one that always starts alike, so that the same hashes give the same table.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.cuckoo_hash import Hashes, partner_of, places_of

# Random walks end long before, unless the filter is too full for its slots.
MAX_KICKS = 500
WALK_START = 0x2545_F491_4F6C_DD1D
WALK_MULTIPLY = 0x5851_F42D_4C95_7F2D
WALK_ADD = 0x1405_7B7E_F767_814F

# Nanoseconds per key; it only steers the choice of path.
FILL_NS = 900

Table = NDArray[np.unsignedinteger]
# Rows done, the bucket and the fingerprint that found no room (0 if all did), and where the walk stands.
Kicked = tuple[int, int, int, int]


def fill(table: Table, buckets: int, slots: int, bits: int, hashes: Hashes) -> tuple[int, list[int]]:
    """Puts every hash that has room into the emptier of its buckets. How many were put, and the rows that were not."""
    places = places_of(hashes, buckets, bits)
    cells = table.tolist()
    homeless = []
    put = 0
    each = zip(places.first.tolist(), places.second.tolist(), places.fingerprints.tolist(), strict=True)
    for row, (first, second, fingerprint) in enumerate(each):
        done = _settle(cells, slots, first, second, fingerprint)
        put += done > 0
        if done < 0:
            homeless.append(row)
    table[:] = cells
    return put, homeless


def kick(table: Table, buckets: int, slots: int, bits: int, hashes: Hashes, homeless: Sequence[int], walk: int) -> Kicked:
    """Finds room for the homeless by moving others; stops at the first for whom there is none."""
    places = places_of(hashes[homeless], buckets, bits)
    cells = table.tolist()
    each = zip(places.first.tolist(), places.second.tolist(), places.fingerprints.tolist(), strict=True)
    stuck = len(homeless), 0, 0
    for row, (first, second, fingerprint) in enumerate(each):
        if _settle(cells, slots, first, second, fingerprint) < 0:
            bucket, left, walk = _wander(cells, buckets, slots, first, fingerprint, walk)
            if left:
                stuck = row + 1, bucket, left
                break
    table[:] = cells
    return *stuck, walk


def _settle(cells: list[int], slots: int, first: int, second: int, fingerprint: int) -> int:
    """1 if the fingerprint went in, 0 if it was there already, -1 if both buckets are full."""
    here = cells[first * slots : first * slots + slots]
    there = cells[second * slots : second * slots + slots]
    if fingerprint in here or fingerprint in there:
        return 0
    free_here, free_there = here.count(0), there.count(0)
    if not free_here and not free_there:
        return -1
    at = (first + 1) * slots - free_here if free_here >= free_there else (second + 1) * slots - free_there
    cells[at] = fingerprint
    return 1


def _wander(cells: list[int], buckets: int, slots: int, bucket: int, fingerprint: int, walk: int) -> tuple[int, int, int]:
    """Puts the fingerprint in another one's place, that one into its other bucket, and so on."""
    for _ in range(MAX_KICKS):
        walk = (walk * WALK_MULTIPLY + WALK_ADD) & 0xFFFF_FFFF_FFFF_FFFF
        at = bucket * slots + (((walk >> 32) * slots) >> 32)
        cells[at], fingerprint = fingerprint, cells[at]
        bucket = partner_of(bucket, fingerprint, buckets)
        free = cells[bucket * slots : bucket * slots + slots].count(0)
        if free:
            cells[(bucket + 1) * slots - free] = fingerprint
            return 0, 0, walk
    return bucket, fingerprint, walk
