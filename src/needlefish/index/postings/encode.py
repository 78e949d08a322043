"""From sorted pairs to pages: hot slots are taken out, the rest becomes Elias-Fano words."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

from needlefish.filters.postings import Pairs, first_of_equals
from needlefish.filters.postings_pages import Pages, Words, encode_pages, high_words, low_bits, low_words
from needlefish.format.postings_page import (
    CROWDED_BYTES,
    CROWDING_GRANULES,
    HOT_GRANULES,
    HOT_WORDS,
    WORD_BYTES,
    HotSlot,
    encode_hot_list,
    head_words,
)
from needlefish.index.postings.shape import Shape

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HotList:
    """The granules of a hot slot, encoded."""

    slot: int
    data: bytes
    granules: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """The pairs of the pages from `first` up to `end`, hot ones apart."""

    first: int
    end: int
    pairs: Pairs
    hots: list[HotList]

    @property
    def keys(self) -> int:
        return len(self.pairs) + sum(hot.granules for hot in self.hots)

    @property
    def hot_bytes(self) -> int:
        return sum(len(hot.data) for hot in self.hots)


@dataclass(frozen=True, slots=True)
class EncodedStretch:
    """Pages one after the other, the length and the checksum of each, and the bytes of the hot lists."""

    data: bytes
    lengths: list[int]
    checksums: list[int]
    hot_data: bytes
    keys: int


def split_hot(pairs: Pairs, shape: Shape, first: int, end: int) -> Stretch:
    """Takes the slots with more than `HOT_GRANULES` granules out of sorted pairs, and lesser ones where they crowd a page."""
    pairs, hots = _taken_out(pairs, _hot_slots(pairs, shape.granules), shape)
    pairs, more = _taken_out(pairs, _crowding_slots(pairs, shape, first, end), shape)
    return Stretch(first, end, pairs, sorted(hots + more, key=lambda hot: hot.slot) if more else hots)


def _taken_out(pairs: Pairs, slots: Ints, shape: Shape) -> tuple[Pairs, list[HotList]]:
    if not len(slots):
        return pairs, []
    starts = np.searchsorted(pairs, slots * shape.granules)
    ends = np.searchsorted(pairs, (slots + 1) * shape.granules)
    kept = np.ones(len(pairs), np.bool_)
    hots = []
    for slot, start, stop in zip(slots.tolist(), starts.tolist(), ends.tolist(), strict=True):
        kept[start:stop] = False
        hots.append(_hot_list(slot, pairs[start:stop] - slot * shape.granules, shape.granules))
    return pairs[kept], hots


def _crowding_slots(pairs: Pairs, shape: Shape, first: int, end: int) -> Ints:
    """Where values of some hundred granules each happen to meet in one page: the slots that weigh more than a record does."""
    bounds = _bounds(pairs, shape, first, end)
    entries = np.diff(bounds)
    lows = low_bits(entries, shape.universe)
    crowded = low_words(entries, lows) + high_words(entries, lows, shape.universe) > CROWDED_BYTES // WORD_BYTES
    found = [np.zeros(0, np.int64)]
    for page in np.flatnonzero(crowded).tolist():
        slots, counts = np.unique(pairs[bounds[page] : bounds[page + 1]] // shape.granules, return_counts=True)
        found.append(slots[counts > CROWDING_GRANULES])
    return np.concatenate(found)


def _bounds(pairs: Pairs, shape: Shape, first: int, end: int) -> Ints:
    """Where the pairs of each page begin, and where those of the last one end."""
    return np.searchsorted(pairs, np.arange(first, end + 1) * shape.universe)


def _hot_slots(pairs: Pairs, granules: int) -> Ints:
    if granules <= HOT_GRANULES or len(pairs) <= HOT_GRANULES:
        return np.zeros(0, np.int64)
    near = np.flatnonzero(pairs[HOT_GRANULES:] - pairs[:-HOT_GRANULES] < granules)
    slots: Ints = pairs[near] // granules
    slots = slots[pairs[near + HOT_GRANULES] // granules == slots]
    return slots[first_of_equals(slots)]


def _hot_list(slot: int, ordinals: Ints, granules: int) -> HotList:
    data = encode_hot_list(ordinals.astype(np.uint32), granules)
    return HotList(slot, data, granules if 2 * len(ordinals) > granules else len(ordinals))


def encode_stretch(stretch: Stretch, shape: Shape, hot_at: int) -> EncodedStretch:
    """`hot_at` is where in the file this stretch's hot lists begin."""
    numbers = [hot.slot // shape.page_slots - stretch.first for hot in stretch.hots]
    hots = np.bincount(numbers, minlength=stretch.end - stretch.first).astype(np.int64)
    pages, edges = _laid_out(stretch, shape, hots)
    words = np.zeros(int(edges[-1]), np.uint64)
    used = edges[1:] > edges[:-1]
    words[edges[:-1][used]] = head_words(np.diff(pages.bounds)[used], hots[used], pages.lows[used])
    encode_pages(stretch.pairs, pages, words)
    _write_hots(words, stretch.hots, edges, hots, hot_at)
    return _finished(words, edges, stretch)


def _laid_out(stretch: Stretch, shape: Shape, hots: Ints) -> tuple[Pages, Ints]:
    """Where the words of each page begin: those of its entries, and those of the page itself."""
    bounds = _bounds(stretch.pairs, shape, stretch.first, stretch.end)
    entries = np.diff(bounds)
    lows = low_bits(entries, shape.universe)
    lower, upper = low_words(entries, lows), high_words(entries, lows, shape.universe)
    sizes = np.where((entries > 0) | (hots > 0), 1 + lower + upper + hots * HOT_WORDS, 0)
    edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    pages = Pages(
        bounds=bounds,
        bases=np.arange(stretch.first, stretch.end) * shape.universe,
        lows=lows,
        low_at=edges[:-1] + 1,
        high_at=edges[:-1] + 1 + lower,
        high_words=upper,
    )
    return pages, edges


def _write_hots(words: Words, lists: list[HotList], edges: Ints, hots: Ints, hot_at: int) -> None:
    """Each page's table stands at its end."""
    ordered = iter(lists)
    for page in np.flatnonzero(hots).tolist():
        for left in range(int(hots[page]), 0, -1):
            hot = next(ordered)
            record = HotSlot(hot.slot, hot_at, xxhash.xxh64_intdigest(hot.data), len(hot.data), hot.granules)
            at = int(edges[page + 1]) - left * HOT_WORDS
            words[at : at + HOT_WORDS] = np.frombuffer(record.encode(), "<u8")
            hot_at += len(hot.data)


def _finished(words: Words, edges: Ints, stretch: Stretch) -> EncodedStretch:
    data = words.astype("<u8", copy=False).tobytes()
    view = memoryview(data)
    places = (edges * WORD_BYTES).tolist()
    return EncodedStretch(
        data=data,
        lengths=[end - start for start, end in pairwise(places)],
        checksums=[xxhash.xxh64_intdigest(view[start:end]) for start, end in pairwise(places)],
        hot_data=b"".join(hot.data for hot in stretch.hots),
        keys=stretch.keys,
    )
