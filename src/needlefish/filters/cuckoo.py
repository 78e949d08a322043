"""One aligned cuckoo filter: a table of fingerprints, `buckets` rows of as many slots as its keys need.

All filters of an index have the same buckets, so that one value lies in the same two buckets of each. A filter that
does not fit grows by a slot in every bucket. The same hashes in the same order give the same table, compiled or not.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from needlefish.filters import cuckoo_plain as plain
from needlefish.filters.compiling import BUDGET
from needlefish.filters.cuckoo_hash import BITS, Hashes, check_layout, fingerprint_type

# Slots of a filter are one byte in a run.
MAX_SLOTS = 255
# Buckets for each row of a granule: 38,000 for 100,000, at which three slots are taken to 88%.
_BUCKETS_PER_ROW = 0.38
# The share of slots that a filter is filled to before it starts with one slot more. Random walks get a little further
# (0.50, 0.89, 0.95, 0.97 is where two choices end), but each key takes ever longer on the way.
_FULL = (0.0, 0.45, 0.84, 0.92, 0.95)


@dataclass(frozen=True, slots=True)
class CuckooFilter:
    """`table` has a row for each bucket; 0 is an empty slot. Without slots, every hash may be inside."""

    table: NDArray[np.unsignedinteger]
    keys: int

    @property
    def slots(self) -> int:
        return int(self.table.shape[1])


def buckets_for(rows: int) -> int:
    """Buckets that suit granules of so many distinct values: with three slots nearly all are taken."""
    return max(1, round(rows * _BUCKETS_PER_ROW))


def slots_for(keys: int, buckets: int) -> int:
    """Slots that a filter of so many keys starts with; few need more."""
    slots = max(1, math.floor(keys / buckets))
    while keys > _FULL[min(slots, len(_FULL) - 1)] * slots * buckets and slots < MAX_SLOTS:
        slots += 1
    return min(slots, MAX_SLOTS)


def false_rate(bits: int, slots: int, occupancy: float) -> float:
    """The chance that a filter says yes to a value it does not have; `occupancy` is the share of slots that are taken."""
    return min(1.0, 2 * slots * occupancy / ((1 << bits) - 1))


def bits_for(filters: int, false_reads: float) -> int:
    """The fewest bits at which so many filters say yes wrongly `false_reads` times a value, or the most there are."""
    enough = (bits for bits in BITS if filters * false_rate(bits, 3, _FULL[3]) <= false_reads)
    return next(enough, BITS[-1])


def bits_per_key(bits: int, occupancy: float) -> float:
    """What a key costs in a bucket row: its own bits, and its share of the empty slots."""
    return bits / occupancy


def build_filter(hashes: Hashes, buckets: int, bits: int) -> CuckooFilter:
    """A filter of these hashes, in any order and repeated as often as they like."""
    check_layout(buckets, bits)
    hashes = np.ascontiguousarray(hashes, np.uint64)
    filling = _Filling(hashes, buckets, bits, compiled=BUDGET.pays(len(hashes) * plain.FILL_NS))
    return filling.finished()


class _Filling:
    """One filter while it is filled."""

    def __init__(self, hashes: Hashes, buckets: int, bits: int, *, compiled: bool) -> None:
        self._hashes = hashes
        self._buckets = buckets
        self._bits = bits
        self._compiled = compiled
        self._walk = plain.WALK_START

    def finished(self) -> CuckooFilter:
        slots = slots_for(len(self._hashes), self._buckets)
        table, keys, homeless = self._filled(slots)
        # Most hashes were repetitions: fewer slots will do.
        while (fewer := slots_for(keys + len(homeless), self._buckets)) < slots:
            slots = fewer
            table, keys, homeless = self._filled(slots)
        while len(homeless):
            done, bucket, fingerprint = self._kicked(table, slots, homeless)
            homeless = homeless[done:]
            if fingerprint and slots == MAX_SLOTS:
                return CuckooFilter(np.zeros((self._buckets, 0), table.dtype), 0)
            if fingerprint:
                table = _grown(table, self._buckets)
                slots += 1
                table[bucket * slots + slots - 1] = fingerprint
        return CuckooFilter(table.reshape(self._buckets, slots), int(np.count_nonzero(table)))

    def _filled(self, slots: int) -> tuple[plain.Table, int, NDArray[np.int64]]:
        table = np.zeros(self._buckets * slots, fingerprint_type(self._bits))
        if not self._compiled:
            put, homeless = plain.fill(table, self._buckets, slots, self._bits, self._hashes)
            return table, put, np.array(homeless, np.int64)
        from needlefish.filters import cuckoo_kernels as compiled

        rows, out = np.empty(len(self._hashes), np.int64), np.zeros(2, np.int64)
        compiled.fill_of(table.dtype)(table, self._buckets, slots, np.uint64((1 << self._bits) - 1), self._hashes, rows, out)
        put, left = out.tolist()
        return table, put, rows[:left]

    def _kicked(self, table: plain.Table, slots: int, homeless: NDArray[np.int64]) -> tuple[int, int, int]:
        """How many found room, and the bucket and fingerprint of the first that did not, which counts as done."""
        if self._compiled:
            from needlefish.filters import cuckoo_kernels as compiled

            out = np.array([0, 0, 0, self._walk], np.uint64)
            compiled.kick_of(table.dtype)(table, self._buckets, slots, np.uint64((1 << self._bits) - 1), self._hashes, homeless, out)
            done, bucket, fingerprint, self._walk = out.tolist()
        else:
            found = plain.kick(table, self._buckets, slots, self._bits, self._hashes, homeless.tolist(), self._walk)
            done, bucket, fingerprint, self._walk = found
        return done, bucket, fingerprint


def _grown(table: plain.Table, buckets: int) -> plain.Table:
    """The same with an empty slot at the end of every bucket."""
    return np.pad(table.reshape(buckets, -1), ((0, 0), (0, 1))).reshape(-1)
