"""Comparing fingerprints with bucket rows, compiled. Importing this module imports numba.

A stretch of slots is first asked whether it has the fingerprint at all: a loop without a branch, which the compiler
turns into vector instructions. Only stretches that say yes are looked at slot by slot.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from needlefish.filters.compiling import Kernel, kernel

_STRETCH = 512
# Shorter where one slot in 4,096 is a match by chance.
_STRETCH_THREES = 128
_NIBBLE, _UPPER = np.uint8(0x0F), np.uint8(0xF0)
_ROWS = types.Array(types.int64, 1, "C", readonly=True)
_FINGERPRINTS = types.Array(types.uint32, 1, "C", readonly=True)


@njit
def _search_row(slots: Any, wanted: Any, question: Any, questions: Any, positions: Any, found: Any) -> Any:
    for start in range(0, slots.size, _STRETCH):
        stretch = slots[start : start + _STRETCH]
        any_here = False
        for slot in range(stretch.size):
            any_here |= stretch[slot] == wanted
        if any_here:
            for slot in range(stretch.size):
                if stretch[slot] == wanted:
                    if found < questions.size:
                        questions[found] = question
                        positions[found] = start + slot
                    found += 1
    return found


def _search(cells: Any, rows: Any, fingerprints: Any, questions: Any, positions: Any) -> Any:
    """How many matches there are; those that have room are written."""
    found = 0
    for question in range(rows.size):
        wanted = cells.dtype.type(fingerprints[question])
        found = _search_row(cells[rows[question]], wanted, question, questions, positions, found)
    return found


@njit
def _has_24(one: Any, two: Any, three: Any, low: Any, middle: Any, high: Any) -> Any:
    any_here = False
    for at in range(one.size):
        any_here |= (one[at] == low) & (two[at] == middle) & (three[at] == high)
    return any_here


@njit
def _has_12(one: Any, two: Any, low: Any, half: Any, nibble: Any, upper: Any) -> Any:
    """A fingerprint has a byte and half of the next, or half a byte and the next."""
    any_here = False
    for at in range(one.size):
        any_here |= ((one[at] == low) & ((two[at] & _NIBBLE) == half)) | (((one[at] & _UPPER) == nibble) & (two[at] == upper))
    return any_here


@njit
def _search_threes(data: Any, slots: Any, bits: Any, fingerprint: Any, question: Any, questions: Any, positions: Any, found: Any) -> Any:
    """Every three bytes are one fingerprint of 24 bits or two of 12.

    A stretch is asked at each of its bytes, not at every third: bytes in a row are what vector instructions can read.
    """
    low, middle, high = np.uint8(fingerprint), np.uint8(fingerprint >> 8), np.uint8(fingerprint >> 16)
    upper, nibble = np.uint8(fingerprint >> 4), np.uint8((fingerprint & 15) << 4)
    size = data.size - 2
    for start in range(0, size, _STRETCH_THREES * 3):
        end = min(start + _STRETCH_THREES * 3, size)
        one, two, three = data[start:end], data[start + 1 : end + 1], data[start + 2 : end + 2]
        if _has_24(one, two, three, low, middle, high) if bits == 24 else _has_12(one, two, low, middle, nibble, upper):
            found = _list_threes(data, start // 3, end // 3, slots, bits, fingerprint, question, questions, positions, found)
    return found


@njit
def _list_threes(
    data: Any, start: Any, end: Any, slots: Any, bits: Any, fingerprint: Any, question: Any, questions: Any, positions: Any, found: Any
) -> Any:
    each, mask = 24 // bits, np.uint32((1 << bits) - 1)
    for at in range(start, end):
        three = np.uint32(data[3 * at]) | np.uint32(data[3 * at + 1]) << np.uint32(8) | np.uint32(data[3 * at + 2]) << np.uint32(16)
        for half in range(each):
            slot = at * each + half
            if (three >> np.uint32(half * bits)) & mask == fingerprint and slot < slots:
                if found < questions.size:
                    questions[found] = question
                    positions[found] = slot
                found += 1
    return found


def _search_packed(packed: Any, slots: Any, bits: Any, rows: Any, fingerprints: Any, questions: Any, positions: Any) -> Any:
    """`_search` for fingerprints of 12 or 24 bits, packed, with four bytes behind the last."""
    found = 0
    # Two bytes more than there are threes: the last ones are asked with what follows them.
    size = -(-slots * bits // 24) * 3 + 2
    for question in range(rows.size):
        row = packed[rows[question], :size]
        found = _search_threes(row, slots, bits, fingerprints[question], question, questions, positions, found)
    return found


@cache
def search_of(cell: "np.dtype[np.unsignedinteger]") -> Kernel:
    """`_search` for rows of this type; an index has one, and the others are never compiled."""
    cells = types.Array(from_dtype(cell), 2, "C", readonly=True)
    return kernel(types.int64(cells, _ROWS, _FINGERPRINTS, types.int64[::1], types.int64[::1]))(_search)


@cache
def search_threes() -> Kernel:
    packed = types.Array(types.uint8, 2, "C", readonly=True)
    return kernel(types.int64(packed, types.int64, types.int64, _ROWS, _FINGERPRINTS, types.int64[::1], types.int64[::1]))(_search_packed)
