"""The arithmetic of hashed postings: slots, pages, and the sorted distinct pairs of a run. Normative text: spec/postings.md.

A pair is one number, slot x granules + ordinal, so that sorting numbers sorts by slot, then by granule. Which of NumPy and
compiled kernels does the work shows in the time alone.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from needlefish.errors import InvalidError
from needlefish.filters.compiling import BUDGET
from needlefish.runtime import in_parallel

Hashes = NDArray[np.uint64]
Pairs = NDArray[np.int64]

# Slots times granules of a run stay below this, so that pairs and the ends of pages are 64-bit integers with a sign.
MAX_UNIVERSE = 2**62
MAX_SLOTS = 2**44
# What an average page has.
PAGE_BYTES = 4096

# Nanoseconds per pair without kernels; they only steer the choice of path.
SORT_NS = 150
# Pairs that are sorted at once lie in a core's own cache.
_BUCKET_PAIRS = 16_384
_MAX_BUCKETS = 2048
# Threads that scatter, and shares of buckets that they take one after the other: more than threads, so that none waits long.
_THREADS = 2
_SHARES = 8

_LOWER = np.uint64(0xFFFF_FFFF)
_HALF = np.uint64(32)


def slots_for_keys(expected_keys: int, false_reads: float, total_keys: int) -> int:
    """Slots that give `false_reads` at `expected_keys`, doubled until they do so for `total_keys`."""
    base = max(1, round(expected_keys / false_reads))
    times = -(-total_keys // max(1, expected_keys))
    doublings = max(0, times - 1).bit_length()
    slots = base << doublings
    if slots > MAX_SLOTS:
        raise InvalidError(
            f"false_reads={false_reads!r} of {max(expected_keys, total_keys)} keys needs {slots} slots, and a run has at most {MAX_SLOTS}; "
            "declare more false_reads"
        )
    return slots


def predicted_bits(granules: int, false_reads: float) -> float:
    """Bits that a key costs in a run of so many granules, once the table has the keys it was declared for."""
    return math.log2(max(1, granules) / false_reads) + 2


def check_universe(slots: int, granules: int) -> None:
    """Refuses what does not fit into 64 bits: ten million granules of 8,192 keys at one false read in ten still do."""
    if slots * granules > MAX_UNIVERSE:
        raise InvalidError(
            f"{granules} granules in a run of {slots} slots: their product is above {MAX_UNIVERSE}; keep them in several runs, "
            "or declare more false_reads"
        )


def page_slots_for(slots: int, granules: int, keys: int) -> int:
    """Slots of one page, so that pages of `keys` pairs in all have `PAGE_BYTES` on average. Integers alone: every machine agrees."""
    if not keys:
        return slots
    pair_bits = (slots * max(1, granules) // keys).bit_length() + 2
    return max(1, min(slots, PAGE_BYTES * 8 * slots // (pair_bits * keys)))


def slot_of(hashed: int, slots: int) -> int:
    """floor(h x slots / 2^64): grows with the hash, and slots of twice the number nest."""
    return (hashed * slots) >> 64


def slots_of(hashes: Hashes, slots: int) -> Pairs:
    """`slot_of` of an array: the upper half of a product of 128 bits, from four of 64."""
    upper, lower = hashes >> _HALF, hashes & _LOWER
    slots_upper, slots_lower = np.uint64(slots >> 32), np.uint64(slots & 0xFFFF_FFFF)
    middle = upper * slots_lower + ((lower * slots_lower) >> _HALF)
    carried = lower * slots_upper + (middle & _LOWER)
    slots_found: Pairs = (upper * slots_upper + (middle >> _HALF) + (carried >> _HALF)).view(np.int64)
    return slots_found


def sorted_pairs(hashes: Sequence[Hashes], slots: int) -> Pairs:
    """The pairs of a run whose granule i has `hashes[i]`: sorted, none twice."""
    granules = max(1, len(hashes))
    check_universe(slots, granules)
    starts = np.zeros(len(hashes) + 1, np.int64)
    np.cumsum([len(part) for part in hashes], out=starts[1:])
    flat = _joined(hashes, starts)
    if BUDGET.pays(len(flat) * SORT_NS):
        return _sorted_compiled(flat, starts, slots, granules)
    return distinct(slots_of(flat, slots) * granules + np.repeat(np.arange(len(hashes)), np.diff(starts)))


def _joined(hashes: Sequence[Hashes], starts: NDArray[np.int64]) -> Hashes:
    """All hashes one after the other. Fresh memory takes longer to touch than to copy, so that threads share that, too."""
    flat = np.empty(int(starts[-1]), np.uint64)
    cuts = np.searchsorted(starts, np.linspace(0, len(flat), _THREADS + 1)[1:-1]).tolist()
    shares = [share for share in pairwise([0, *cuts, len(hashes)]) if share[0] < share[1]]
    in_parallel(lambda share: np.concatenate(hashes[share[0] : share[1]], out=flat[starts[share[0]] : starts[share[1]]]), shares)
    return flat


def distinct(pairs: Pairs) -> Pairs:
    """Sorted, none twice; `pairs` is sorted in place."""
    pairs.sort()
    return pairs[first_of_equals(pairs)]


def first_of_equals(ordered: NDArray[np.int64]) -> NDArray[np.bool_]:
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def sort_distinct(pairs: Pairs, first: int, end: int) -> Pairs:
    """`distinct` of pairs that lie in [first, end), which spares the compiled sort their upper bits."""
    if not BUDGET.pays(len(pairs) * SORT_NS):
        return distinct(pairs)
    from needlefish.filters import postings_kernels as compiled

    pairs = np.ascontiguousarray(pairs)
    kept = np.zeros(1, np.int64)
    compiled.sort_buckets(pairs, np.array([0, len(pairs)], np.int64), 0, 1, first, (end - first).bit_length(), kept)
    return pairs[: kept[0]]


def _sorted_compiled(flat: Hashes, starts: NDArray[np.int64], slots: int, granules: int) -> Pairs:
    """Scattered into buckets by their upper bits, then each bucket sorted by itself; threads share both."""
    from needlefish.filters import postings_kernels as compiled

    shift = _shift(len(flat), slots * granules)
    buckets = ((slots * granules - 1) >> shift) + 1
    spans = list(pairwise(np.linspace(0, len(flat), _THREADS + 1).astype(np.int64).tolist()))
    counts = np.zeros((_THREADS, buckets), np.int64)
    shape = (starts, slots, granules, shift)
    in_parallel(lambda at: compiled.count(flat, *spans[at], *shape, counts[at]), range(_THREADS))
    # Bucket after bucket, and within one the threads' shares in order.
    ends = np.cumsum(counts.T.reshape(-1)).reshape(buckets, _THREADS).T
    cursors = np.ascontiguousarray(ends - counts)
    pairs = np.empty(len(flat), np.int64)
    in_parallel(lambda at: compiled.scatter(flat, *spans[at], *shape, cursors[at], pairs), range(_THREADS))
    return _sort_each(pairs, np.concatenate([[0], ends[-1]]).astype(np.int64), shift)


def _shift(keys: int, universe: int) -> int:
    """Bits that remain to be sorted within a bucket."""
    wanted = min(_MAX_BUCKETS, max(1, keys // _BUCKET_PAIRS))
    return max(0, (universe - 1).bit_length() - (wanted - 1).bit_length())


def _sort_each(pairs: Pairs, edges: NDArray[np.int64], shift: int) -> Pairs:
    from needlefish.filters import postings_kernels as compiled

    kept = np.zeros(len(edges) - 1, np.int64)
    # Shares of as many pairs, not of as many buckets: duplicated columns fill a few of them.
    cuts = np.searchsorted(edges, np.linspace(0, len(pairs), _SHARES + 1)[1:-1]).tolist()
    shares = pairwise([0, *cuts, len(kept)])
    in_parallel(lambda share: compiled.sort_buckets(pairs, edges, *share, 0, shift, kept), shares)
    total = int(kept.sum())
    if total < len(pairs):
        compiled.close_gaps(pairs, edges, kept)
    return pairs[:total]
