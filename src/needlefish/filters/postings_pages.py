"""Elias-Fano pages of postings: sorted numbers below a universe, in 64-bit words.

The lower bits of each number are kept as they are; what is above them is counted up in unary: a one for each number, a zero
for each step. With l = floor(log2(universe / numbers)) lower bits that is at most log2(universe / numbers) + 2 bits a number.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.compiling import BUDGET
from needlefish.filters.postings import Pairs

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

# Nanoseconds without kernels, per page and per pair; they only steer the choice of path.
_PAGE_NS = 60_000
_PAIR_NS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Where the words of some pages are. All arrays have one number for each page, `bounds` one more."""

    # Page p has the pairs from bounds[p] to bounds[p + 1], which count from bases[p].
    bounds: Ints
    bases: Ints
    lows: Ints
    low_at: Ints
    high_at: Ints
    high_words: Ints

    def cost_ns(self) -> int:
        return len(self.lows) * _PAGE_NS + int(self.bounds[-1]) * _PAIR_NS


def low_bits(entries: Ints, universe: int) -> Ints:
    """floor(log2(universe / entries)), 0 for a page without entries."""
    share = universe // np.maximum(entries, 1)
    # Floats round up near powers of two, which the comparison takes back.
    bits = np.frexp(share.astype(np.float64))[1].astype(np.int64) - 1
    bits -= (np.int64(1) << np.maximum(bits, 0)) > share
    return np.where(entries > 0, np.maximum(bits, 0), 0)


def low_words(entries: Ints, lows: Ints) -> Ints:
    return (entries * lows + 63) >> 6


def high_words(entries: Ints, lows: Ints, universe: int) -> Ints:
    """A one for each entry, and a zero for each step up to the end of the universe."""
    return np.where(entries > 0, (entries + (universe >> lows) + 64) >> 6, 0)


def encode_pages(pairs: Pairs, pages: Pages, words: Words) -> None:
    """Writes the pages into `words`, which are zero."""
    if BUDGET.pays(pages.cost_ns()):
        from needlefish.filters import postings_kernels as compiled

        compiled.encode_pages(pairs, pages.bounds, pages.bases, pages.lows, pages.low_at, pages.high_at, words)
        return
    for page in np.flatnonzero(np.diff(pages.bounds)).tolist():
        _encode(pairs[pages.bounds[page] : pages.bounds[page + 1]] - pages.bases[page], pages, page, words)


def decode_pages(words: Words, pages: Pages) -> Pairs | None:
    """The pairs of the pages; None if one does not have as many as it says."""
    pairs = np.empty(int(pages.bounds[-1]), np.int64)
    if BUDGET.pays(pages.cost_ns()):
        from needlefish.filters import postings_kernels as compiled

        arrays = (pages.bounds, pages.bases, pages.lows, pages.low_at, pages.high_at, pages.high_words)
        return pairs if compiled.decode_pages(words, *arrays, pairs) < 0 else None
    for page in np.flatnonzero(np.diff(pages.bounds)).tolist():
        values = _decode(words, pages, page)
        if len(values) != pages.bounds[page + 1] - pages.bounds[page]:
            return None
        pairs[pages.bounds[page] : pages.bounds[page + 1]] = values + pages.bases[page]
    return pairs


def _encode(values: Ints, pages: Pages, page: int, words: Words) -> None:
    low, start = int(pages.lows[page]), int(pages.high_at[page])
    steps = np.zeros(int(pages.high_words[page]) * 64, np.uint8)
    steps[(values >> low) + np.arange(len(values))] = 1
    words[start : start + len(steps) // 64] = _packed(steps)
    lower = _packed(((values[:, None] >> np.arange(low)) & 1).astype(np.uint8).reshape(-1))
    start = int(pages.low_at[page])
    words[start : start + len(lower)] = lower


def _packed(bits: NDArray[np.uint8]) -> Words:
    data = np.zeros((len(bits) + 63) // 64 * 8, np.uint8)
    data[: (len(bits) + 7) // 8] = np.packbits(bits, bitorder="little")
    return data.view("<u8")


def _decode(words: Words, pages: Pages, page: int) -> Ints:
    low, start = int(pages.lows[page]), int(pages.high_at[page])
    steps = np.flatnonzero(_bits(words[start : start + int(pages.high_words[page])]))
    uppers: Ints = (steps - np.arange(len(steps))) << low
    start = int(pages.low_at[page])
    stored = _bits(words[start : start + (len(steps) * low + 63) // 64])
    if len(stored) < len(steps) * low or not low:
        return uppers
    lowers = stored[: len(steps) * low].reshape(-1, low).astype(np.int64) << np.arange(low)
    values: Ints = uppers | lowers.sum(axis=1)
    return values


def _bits(words: Words) -> NDArray[np.uint8]:
    return np.unpackbits(words.view(np.uint8), bitorder="little")
