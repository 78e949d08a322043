"""XXH64 with seed 0, compiled. Importing this module imports numba: only `hash` does, and only when it pays.

Follows the xxHash specification step by step.
"""

from typing import Any

import numpy as np
from numba import njit, types

from needlefish.filters.compiling import kernel
from needlefish.filters.xxh64 import PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5

P1, P2, P3, P4, P5 = (np.uint64(prime) for prime in (PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5))
# Arrow's buffers are read-only to NumPy, and numba tells such arrays apart.
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OFFSETS = [types.Array(kind, 1, "C", readonly=True) for kind in (types.int32, types.int64)]
HASHES = types.uint64[::1]
U0, U1, U4, U8, U16, U24, U32 = (np.uint64(size) for size in (0, 1, 4, 8, 16, 24, 32))


@njit
def load_64(data: Any, at: Any) -> Any:
    """A little-endian word at any address; LLVM makes one load of it."""
    word = U0
    for byte in range(8):
        word |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@njit
def load_32(data: Any, at: Any) -> Any:
    word = U0
    for byte in range(4):
        word |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@njit
def _rotate(word: Any, bits: Any) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@njit
def _round(state: Any, word: Any) -> Any:
    return _rotate(state + word * P2, 31) * P1


@njit
def _merge(state: Any, lane: Any) -> Any:
    return (state ^ _round(U0, lane)) * P1 + P4


@njit
def _avalanche(state: Any) -> Any:
    state = (state ^ (state >> np.uint64(33))) * P2
    state = (state ^ (state >> np.uint64(29))) * P3
    return state ^ (state >> np.uint64(32))


@njit
def _stripes(data: Any, at: Any, end: Any) -> Any:
    """Whole stripes of 32 bytes through four independent lanes."""
    one, two, three, four = P1 + P2, P2, U0, U0 - P1
    while at + U32 <= end:
        one = _round(one, load_64(data, at))
        two = _round(two, load_64(data, at + U8))
        three = _round(three, load_64(data, at + U16))
        four = _round(four, load_64(data, at + U24))
        at += U32
    state = _rotate(one, 1) + _rotate(two, 7) + _rotate(three, 12) + _rotate(four, 18)
    return _merge(_merge(_merge(_merge(state, one), two), three), four)


@njit
def _tail(state: Any, data: Any, at: Any, end: Any) -> Any:
    """The last 0 to 31 bytes: words of 8, one of 4, then single bytes."""
    while at + U8 <= end:
        state = _rotate(state ^ _round(U0, load_64(data, at)), 27) * P1 + P4
        at += U8
    if at + U4 <= end:
        state = _rotate(state ^ (load_32(data, at) * P1), 23) * P2 + P3
        at += U4
    while at < end:
        state = _rotate(state ^ (np.uint64(data[at]) * P5), 11) * P1
        at += U1
    return state


@njit
def _xxh64(data: Any, start: Any, size: Any) -> Any:
    end = start + size
    if size < U32:
        return _avalanche(_tail(P5 + size, data, start, end))
    return _avalanche(_tail(_stripes(data, start, end) + size, data, end - size % U32, end))


@kernel(types.void(BYTES, HASHES))
def hash_4(data: Any, out: Any) -> None:
    for row in range(out.size):
        word = load_32(data, np.uint64(row) * U4)
        out[row] = _avalanche(_rotate((P5 + U4) ^ (word * P1), 23) * P2 + P3)


@kernel(types.void(BYTES, HASHES))
def hash_8(data: Any, out: Any) -> None:
    for row in range(out.size):
        word = load_64(data, np.uint64(row) * U8)
        out[row] = _avalanche(_rotate((P5 + U8) ^ _round(U0, word), 27) * P1 + P4)


@kernel(types.void(BYTES, types.uint64, HASHES))
def hash_fixed(data: Any, width: Any, out: Any) -> None:
    for row in range(out.size):
        out[row] = _xxh64(data, np.uint64(row) * width, width)


@kernel(*(types.void(BYTES, offsets, HASHES) for offsets in OFFSETS))
def hash_variable(data: Any, offsets: Any, out: Any) -> None:
    for row in range(out.size):
        start = np.uint64(offsets[row])
        out[row] = _xxh64(data, start, np.uint64(offsets[row + 1]) - start)


@kernel(*(types.void(types.uint8[::1], types.int64[::1], BYTES, offsets) for offsets in OFFSETS))
def append_parts(out: Any, cursors: Any, data: Any, offsets: Any) -> None:
    """Writes each value's length and bytes at its row's cursor, and moves the cursor behind them."""
    for row in range(cursors.size):
        at, start, end = cursors[row], offsets[row], offsets[row + 1]
        size = end - start
        for byte in range(4):
            out[at + byte] = np.uint8((size >> (8 * byte)) & 255)
        # A loop, not a slice: slices made this one kernel take four seconds to compile.
        for byte in range(size):
            out[at + 4 + byte] = data[start + byte]
        cursors[row] = at + 4 + size
