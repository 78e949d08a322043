"""Probing a postings run: one hash by looking at a few bits of one page, many by a pass over the pages they fall into."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from needlefish.filters.postings import Hashes
from needlefish.filters.postings_lookup import Page, find_between
from needlefish.format.granule_table import GranuleRef
from needlefish.format.postings_page import WORD_BYTES, HotSlot, decode_head, decode_hots
from needlefish.index.cost import Cost, blocks_touched
from needlefish.index.point import Hits
from needlefish.index.postings.batch import probe_many
from needlefish.index.postings.file import DIRECTORY_RECORDS, STRETCH_BYTES, PostingsFile
from needlefish.index.postings.lately import Lately
from needlefish.index.postings.shape import shape_of
from needlefish.model.log import RunRef
from needlefish.store import Store

# Pages that single probes keep; of 4 KiB on average and 16 KiB at most.
_KEPT_PAGES = 64


@dataclass(frozen=True, slots=True)
class _OpenPage:
    words: Page | None
    hots: dict[int, HotSlot]


_NOTHING = _OpenPage(None, {})


class PostingsReader:
    """Fills the seam `PointReader`. Keeps up to 1 MiB of directory and 64 pages, or a file of up to 16 KiB whole."""

    def __init__(self, ref: RunRef) -> None:
        self.ref = ref
        self._file = PostingsFile(ref)
        self._shape = shape_of(self._file.point)
        self._pages: Lately[_OpenPage] = Lately(_KEPT_PAGES)

    def probe(self, store: Store, hashes: Hashes) -> Hits:
        if len(hashes) != 1:
            return probe_many(self._file, store, np.ascontiguousarray(hashes, np.uint64))
        ordinals = self._probe_one(store, int(hashes[0]))
        return Hits(np.zeros(len(ordinals), np.int64), np.array(ordinals, np.int64))

    def granules(self, store: Store, ordinals: Sequence[int]) -> list[GranuleRef]:
        return self._file.granules(store, ordinals)

    def expected_of_probe(self, hashes: int) -> Cost:
        """Without hot lists, and as if nothing of a large file was kept."""
        if self._file.is_small:
            return Cost() if self._file.whole is not None else Cost(requests=1, bytes=self.ref.bytes)
        pages = self._file.point.end - self._file.point.first
        touched = blocks_touched(pages, hashes)
        stretches = blocks_touched(-(-pages // DIRECTORY_RECORDS), hashes)
        page_bytes = self._file.places.directory / pages
        return Cost(requests=round(touched + stretches), bytes=round(touched * page_bytes + stretches * STRETCH_BYTES))

    def _probe_one(self, store: Store, hashed: int) -> Sequence[int]:
        shape, point = self._shape, self._file.point
        slot = (hashed * shape.slots) >> 64
        number = slot // shape.page_slots
        if not point.first <= number < point.end:
            return ()
        page = self._pages.get(number)
        if page is None:
            page = self._open(store, number)
        hot = page.hots.get(slot)
        if hot is not None:
            return self._file.hot_lists(store, [hot])[0].to_array()
        if page.words is None:
            return ()
        first = (slot - number * shape.page_slots) * shape.granules
        return [value - first for value in find_between(page.words, first, first + shape.granules)]

    def _open(self, store: Store, number: int) -> _OpenPage:
        (data,) = self._file.pages(store, [number])
        page = self._parsed(data) if data else _NOTHING
        self._pages.keep(number, page)
        return page

    def _parsed(self, data: bytes) -> _OpenPage:
        head = decode_head(data)
        hots = {hot.slot: hot for hot in decode_hots(data, head.hots)} if head.hots else {}
        if not head.entries:
            return _OpenPage(None, hots)
        high_at = WORD_BYTES * (1 + (head.entries * head.low + 63) // 64)
        high_words = (head.entries + (self._shape.universe >> head.low) + 64) // 64
        return _OpenPage(Page(data, head.low, WORD_BYTES, high_at, high_words), hots)
