"""Builds a postings run from the hashes of granules."""

from itertools import pairwise

import numpy as np

from needlefish.filters.postings import Hashes, Pairs, page_slots_for, sorted_pairs
from needlefish.format.granule_table import GranuleRef, encode_granules
from needlefish.index.postings.assembly import Assembly
from needlefish.index.postings.encode import Stretch, split_hot
from needlefish.index.postings.shape import Shape, slots_for
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition, PointRun
from needlefish.runtime import Runtime, in_parallel
from needlefish.store import Store

# Pairs that one thread encodes at a time.
STRETCH_PAIRS = 1 << 19
# Of a key's hash and of what sorting it takes.
_KEY_BYTES = 32


class PostingsBuilder:
    """Fills the seam `PointBuilder`. Hashes are kept until `finish`, which takes some 24 bytes more for each."""

    def __init__(self, index: PointIndexDefinition, total_keys: int, keys_before: int = 0) -> None:
        """The keys of the whole table decide the slots: `total_keys` as far as they are known, or those before and this run's own."""
        self.keys = 0
        self._index = index
        self._total_keys = total_keys
        self._keys_before = keys_before
        self._granules: list[GranuleRef] = []
        self._hashes: list[Hashes] = []

    @property
    def size_bytes(self) -> int:
        return self.keys * _KEY_BYTES

    def add(self, granule: GranuleRef, hashes: Hashes) -> None:
        self._granules.append(granule)
        self._hashes.append(np.ascontiguousarray(hashes, np.uint64))
        self.keys += len(hashes)

    def finish(self, store: Store, runtime: Runtime) -> RunRef:
        """The builder is spent after it: what it collected is let go before the pages are made."""
        slots, granules = slots_for(self._index, max(self._total_keys, self._keys_before + self.keys)), len(self._granules)
        pairs = sorted_pairs(self._hashes, slots)
        self._hashes = []
        shape = Shape(slots, page_slots_for(slots, granules, len(pairs)), max(1, granules))
        assembly = Assembly(shape)
        assembly.add(in_parallel(lambda cut: _stretch(pairs, shape, *cut), stretches(shape, 0, shape.pages, len(pairs))))
        point = PointRun(
            kind="postings", keys=0, granules=granules, first=0, end=shape.pages, slots=shape.slots, page_slots=shape.page_slots
        )
        return assembly.put(store, runtime, self._index.run_kind, point, encode_granules(self._granules))


def stretches(shape: Shape, first: int, end: int, pairs: int) -> list[tuple[int, int]]:
    """The pages from `first` up to `end`, cut so that each piece has about `STRETCH_PAIRS`: slots fill evenly."""
    pieces = max(1, min(end - first, -(-pairs // STRETCH_PAIRS)))
    return list(pairwise(first + (end - first) * piece // pieces for piece in range(pieces + 1)))


def _stretch(pairs: Pairs, shape: Shape, first: int, end: int) -> Stretch:
    start, stop = np.searchsorted(pairs, [shape.base(first), shape.base(end)]).tolist()
    return split_hot(pairs[start:stop], shape, first, end)
