"""One input of a merge: the pairs of a range of slots, with the slots and ordinals that they have in the result."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.postings import Pairs
from needlefish.filters.postings_renumber import GONE, renumber
from needlefish.index.postings.decode import Decoded, decoded
from needlefish.index.postings.file import PostingsFile
from needlefish.index.postings.shape import Shape, shape_of
from needlefish.store import Store

__all__ = ["GONE", "Source"]

# Pages that are read and decoded together: some 4 MiB.
_CALL_PAGES = 1024


class Source:
    """A run in its parts, and the new ordinal of each of its granules, or `GONE`."""

    def __init__(self, files: Sequence[PostingsFile], ordinals: NDArray[np.int64]) -> None:
        self.ordinals = ordinals
        self._files = files
        self._shape = shape_of(files[0].point)

    def pairs(self, store: Store, result: Shape, first_slot: int, end_slot: int) -> Pairs:
        """Of the result's slots from `first_slot` up to `end_slot`: in order of slots, but not of ordinals, and maybe twice."""
        halvings = (self._shape.slots // result.slots).bit_length() - 1
        first, end = first_slot << halvings, end_slot << halvings
        found = [np.zeros(0, np.int64)]
        for file, numbers in self._pages(first, end):
            content = decoded(numbers, file.pages(store, numbers), self._shape, file.path)
            for pairs in (self._cut(content.pairs, first, end), *self._hot_pairs(file, store, content, first, end)):
                found.append(renumber(pairs, self._shape.granules, halvings, self.ordinals, result.granules))
        return np.concatenate(found)

    def _pages(self, first_slot: int, end_slot: int) -> Iterator[tuple[PostingsFile, range]]:
        first, end = first_slot // self._shape.page_slots, -(-end_slot // self._shape.page_slots)
        for file in self._files:
            start, stop = max(first, file.point.first), min(end, file.point.end)
            for at in range(start, stop, _CALL_PAGES):
                yield file, range(at, min(at + _CALL_PAGES, stop))

    def _cut(self, pairs: Pairs, first_slot: int, end_slot: int) -> Pairs:
        """Pages at the edges reach beyond them."""
        granules = self._shape.granules
        start, stop = np.searchsorted(pairs, [first_slot * granules, end_slot * granules]).tolist()
        return pairs[start:stop]

    def _hot_pairs(self, file: PostingsFile, store: Store, content: Decoded, first_slot: int, end_slot: int) -> Iterator[Pairs]:
        hots = [hot for hot in content.hots if first_slot <= hot.slot < end_slot]
        for hot, listed in zip(hots, file.hot_lists(store, hots), strict=True):
            yield np.array(listed.to_array(), np.int64) + hot.slot * self._shape.granules
