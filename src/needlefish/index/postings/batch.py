"""Probing many hashes at once: sorted by slot, each page is read and decoded once."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.postings import Hashes, first_of_equals, slots_of
from needlefish.format.postings_page import HotSlot
from needlefish.index.point import Hits
from needlefish.index.postings.decode import decoded
from needlefish.index.postings.file import PostingsFile
from needlefish.index.postings.shape import shape_of
from needlefish.runtime import in_parallel
from needlefish.store import Store

Ints = NDArray[np.int64]
_Found = list[tuple[Ints, Ints]]

# Pages that are read and decoded together: some 4 MiB.
_CALL_PAGES = 1024


def probe_many(file: PostingsFile, store: Store, hashes: Hashes) -> Hits:
    slots = slots_of(hashes, file.point.slots)
    places = np.argsort(slots, kind="stable")
    pages = slots[places] // file.point.page_slots
    first, end = np.searchsorted(pages, [file.point.first, file.point.end]).tolist()
    places, pages = places[first:end], pages[first:end]
    starts = np.flatnonzero(first_of_equals(pages))
    edges = [*starts[::_CALL_PAGES].tolist(), len(pages)]
    calls = [(places[start:stop], pages[start:stop]) for start, stop in pairwise(edges)]
    found = in_parallel(lambda call: _probe_pages(file, store, slots, *call), calls)
    return _hits([part for parts in found for part in parts])


def _probe_pages(file: PostingsFile, store: Store, slots: Ints, places: Ints, pages: Ints) -> _Found:
    """Places and ordinals of what the hashes at `places` hit; `pages` are the pages of their slots, in order."""
    numbers = pages[first_of_equals(pages)].tolist()
    shape = shape_of(file.point)
    content = decoded(numbers, file.pages(store, numbers), shape, file.path)
    wanted = slots[places]
    starts = np.searchsorted(content.pairs, wanted * shape.granules)
    counts = np.searchsorted(content.pairs, (wanted + 1) * shape.granules) - starts
    at = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
    ordinals = content.pairs[at] - np.repeat(wanted * shape.granules, counts)
    return [(np.repeat(places, counts), ordinals), *_probe_hots(file, store, content.hots, wanted, places)]


def _probe_hots(file: PostingsFile, store: Store, hots: Sequence[HotSlot], wanted: Ints, places: Ints) -> _Found:
    slots = np.array([hot.slot for hot in hots], np.int64)
    starts, ends = np.searchsorted(wanted, slots), np.searchsorted(wanted, slots, side="right")
    asked = np.flatnonzero(starts < ends).tolist()
    found: _Found = []
    for number, listed in zip(asked, file.hot_lists(store, [hots[number] for number in asked]), strict=True):
        ordinals = np.array(listed.to_array(), np.int64)
        hit = places[starts[number] : ends[number]]
        found.append((np.repeat(hit, len(ordinals)), np.tile(ordinals, len(hit))))
    return found


def _hits(found: _Found) -> Hits:
    nothing = np.zeros(0, np.int64)
    places = np.concatenate([nothing, *(part[0] for part in found)])
    ordinals = np.concatenate([nothing, *(part[1] for part in found)])
    order = np.lexsort((ordinals, places))
    return Hits(places[order], ordinals[order])
