"""Sorting, encoding and decoding of postings, compiled. Importing this module imports numba."""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from needlefish.filters.compiling import Kernel, kernel

HASHES = types.Array(types.uint64, 1, "C", readonly=True)
READ_WORDS = types.Array(types.uint64, 1, "C", readonly=True)
WORDS = types.uint64[::1]
INTS = types.int64[::1]
INT = types.int64

U1, U6, U32, U63, U64 = (np.uint64(number) for number in (1, 6, 32, 63, 64))
LOWER = np.uint64(0xFFFF_FFFF)
# Counters of one digit: 16 KiB, which stay in the innermost cache.
DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
FEW = 48
_emitted: Callable[[Kernel], Kernel] = intrinsic


@_emitted
def _trailing_zeros(typing_context: Any, word: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), emit


@njit
def _slot_of(hashed: Any, slots: Any) -> Any:
    upper, lower = hashed >> U32, hashed & LOWER
    slots_upper, slots_lower = slots >> U32, slots & LOWER
    middle = upper * slots_lower + ((lower * slots_lower) >> U32)
    carried = lower * slots_upper + (middle & LOWER)
    return np.int64(upper * slots_upper + (middle >> U32) + (carried >> U32))


@kernel(types.void(HASHES, INT, INT, INTS, INT, INT, INT, INTS))
def count(hashes: Any, first: Any, end: Any, starts: Any, slots: Any, granules: Any, shift: Any, counts: Any) -> None:
    """Pairs in each bucket, of the hashes from `first` to `end`."""
    ordinal = np.searchsorted(starts, first, side="right") - 1
    for at in range(first, end):
        while at >= starts[ordinal + 1]:
            ordinal += 1
        counts[(_slot_of(hashes[at], np.uint64(slots)) * granules + ordinal) >> shift] += 1


@kernel(types.void(HASHES, INT, INT, INTS, INT, INT, INT, INTS, INTS))
def scatter(hashes: Any, first: Any, end: Any, starts: Any, slots: Any, granules: Any, shift: Any, cursors: Any, pairs: Any) -> None:
    """Each pair to its bucket's cursor."""
    ordinal = np.searchsorted(starts, first, side="right") - 1
    for at in range(first, end):
        while at >= starts[ordinal + 1]:
            ordinal += 1
        pair = _slot_of(hashes[at], np.uint64(slots)) * granules + ordinal
        bucket = pair >> shift
        pairs[cursors[bucket]] = pair
        cursors[bucket] += 1


@njit
def _insert_sorted(pairs: Any, first: Any, end: Any) -> None:
    for at in range(first + 1, end):
        pair = pairs[at]
        place = at
        while place > first and pairs[place - 1] > pair:
            pairs[place] = pairs[place - 1]
            place -= 1
        pairs[place] = pair


@njit
def _pass(source: Any, source_at: Any, target: Any, target_at: Any, size: Any, base: Any, shift: Any, counts: Any) -> Any:
    """One stable pass over one digit; False, and nothing moved, if all pairs have the same one."""
    counts[:] = 0
    for at in range(size):
        counts[((source[source_at + at] - base) >> shift) & (DIGITS - 1)] += 1
    if counts[((source[source_at] - base) >> shift) & (DIGITS - 1)] == size:
        return False
    total = target_at
    for digit in range(DIGITS):
        total, counts[digit] = total + counts[digit], total
    for at in range(size):
        pair = source[source_at + at]
        digit = ((pair - base) >> shift) & (DIGITS - 1)
        target[counts[digit]] = pair
        counts[digit] += 1
    return True


@njit
def _radix_sort(pairs: Any, first: Any, end: Any, scratch: Any, base: Any, bits: Any, counts: Any) -> None:
    size, moved = end - first, False
    for shift in range(0, bits, DIGIT_BITS):
        if moved:
            moved = not _pass(scratch, 0, pairs, first, size, base, shift, counts)
        else:
            moved = _pass(pairs, first, scratch, 0, size, base, shift, counts)
    if moved:
        for at in range(size):
            pairs[first + at] = scratch[at]


@njit
def _drop_equals(pairs: Any, first: Any, end: Any) -> Any:
    kept = first
    for at in range(first, end):
        if at == first or pairs[at] != pairs[kept - 1]:
            pairs[kept] = pairs[at]
            kept += 1
    return kept - first


@kernel(types.void(INTS, INTS, INT, INT, INT, INT, INTS))
def sort_buckets(pairs: Any, edges: Any, first: Any, end: Any, base: Any, bits: Any, kept: Any) -> None:
    """Sorts each bucket by the lower `bits` of pair - base, and moves its distinct pairs to its front: `kept` of them."""
    largest = 0
    for bucket in range(first, end):
        largest = max(largest, edges[bucket + 1] - edges[bucket])
    scratch = np.empty(largest, np.int64)
    counts = np.empty(DIGITS, np.int64)
    for bucket in range(first, end):
        start, stop = edges[bucket], edges[bucket + 1]
        if stop - start <= FEW:
            _insert_sorted(pairs, start, stop)
        else:
            _radix_sort(pairs, start, stop, scratch, base, bits, counts)
        kept[bucket] = _drop_equals(pairs, start, stop)


@kernel(types.void(INTS, INTS, INTS))
def close_gaps(pairs: Any, edges: Any, kept: Any) -> None:
    """Moves what each bucket kept behind what the ones before it kept."""
    to = 0
    for bucket in range(kept.size):
        start = edges[bucket]
        for at in range(kept[bucket]):
            pairs[to + at] = pairs[start + at]
        to += kept[bucket]


@kernel(types.void(INTS, INTS, INTS, INTS, INTS, INTS, WORDS))
def encode_pages(pairs: Any, bounds: Any, bases: Any, lows: Any, low_at: Any, high_at: Any, words: Any) -> None:
    """Elias-Fano: of each page the lower parts from word `low_at`, the unary upper parts from word `high_at`."""
    for page in range(lows.size):
        start, low = bounds[page], np.uint64(lows[page])
        mask = (U1 << low) - U1
        for at in range(start, bounds[page + 1]):
            value = np.uint64(pairs[at] - bases[page])
            place = np.uint64(at - start)
            bit = (value >> low) + place
            words[high_at[page] + np.int64(bit >> U6)] |= U1 << (bit & U63)
            if low:
                bit = place * low
                word, fill = low_at[page] + np.int64(bit >> U6), bit & U63
                words[word] |= (value & mask) << fill
                if fill + low > U64:
                    words[word + 1] |= (value & mask) >> (U64 - fill)


@kernel(types.int64(READ_WORDS, INTS, INTS, INTS, INTS, INTS, INTS, INTS))
def decode_pages(words: Any, bounds: Any, bases: Any, lows: Any, low_at: Any, high_at: Any, high_words: Any, pairs: Any) -> Any:
    """The reverse; returns the first page that does not have as many pairs as it says, or -1."""
    for page in range(lows.size):
        at, end, low = bounds[page], bounds[page + 1], np.uint64(lows[page])
        mask = (U1 << low) - U1
        place = np.uint64(0)
        for number in range(high_words[page]):
            word = words[high_at[page] + number]
            while word:
                if at == end:
                    return page
                value = ((np.uint64(number) << U6) + _trailing_zeros(word) - place) << low
                word &= word - U1
                if low:
                    bit = place * low
                    part, fill = low_at[page] + np.int64(bit >> U6), bit & U63
                    lower = words[part] >> fill
                    if fill + low > U64:
                        lower |= words[part + 1] << (U64 - fill)
                    value |= lower & mask
                pairs[at] = bases[page] + np.int64(value)
                at += 1
                place += U1
        if at != end:
            return page
    return -1


@kernel(types.int64(INTS, INT, INT, INTS, INT, INTS))
def renumber(pairs: Any, granules: Any, halvings: Any, ordinals: Any, new_granules: Any, out: Any) -> Any:
    """Pairs of another run: fewer slots, other ordinals; -1 stands for a granule that is gone. Returns how many stayed."""
    kept = 0
    slot, first, after = 0, 0, 0
    for at in range(pairs.size):
        pair = pairs[at]
        # A division takes longer than all the rest, and neighbours share their slot or lie just behind it.
        if pair >= after:
            slot = pair // granules
            first = slot * granules
            after = first + granules
        new = ordinals[pair - first]
        if new >= 0:
            out[kept] = (slot >> halvings) * new_granules + new
            kept += 1
    return kept
