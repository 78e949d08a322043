"""Building a cuckoo run: a filter for each granule at once, all of them turned into bucket rows at the end."""

import numpy as np

from needlefish.errors import InvalidError
from needlefish.filters.cuckoo import CuckooFilter, build_filter
from needlefish.filters.cuckoo_hash import check_layout, fingerprint_type
from needlefish.format.cuckoo_rows import Cells
from needlefish.format.cuckoo_run import EVERYTHING, KEPT
from needlefish.format.granule_table import GranuleRef, encode_granules
from needlefish.index.cuckoo.filters import Filters
from needlefish.index.cuckoo.output import CuckooOutput
from needlefish.index.point import Hashes
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import Runtime
from needlefish.store import Store

# Filters are kept in so many pieces, each freed as soon as its rows are written: the run and a sixteenth of it is the
# most that memory holds.
_PIECES = 16


class CuckooBuilder:
    """A PointBuilder. `keys` are the fingerprints stored; memory follows `size_bytes`, which empty slots fill as well."""

    def __init__(self, index: PointIndexDefinition) -> None:
        if index.buckets < 1:
            raise InvalidError(
                f"buckets={index.buckets} of the index {index.name!r}: declare how many buckets its filters have; see buckets_for"
            )
        check_layout(index.buckets, index.bits)
        self._index = index
        self._granules: list[GranuleRef] = []
        self._slots: list[int] = []
        edges = np.linspace(0, index.buckets, min(_PIECES, index.buckets) + 1).astype(np.int64)
        self._spans = list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
        self._pieces: list[list[Cells]] = [[] for _ in self._spans]
        self.keys = 0
        self.size_bytes = 0

    def add(self, granule: GranuleRef, hashes: Hashes) -> None:
        built = build_filter(hashes, self._index.buckets, self._index.bits)
        self._granules.append(granule)
        self._slots.append(built.slots)
        self.keys += built.keys
        self.size_bytes += built.table.nbytes
        self._keep(built)

    def finish(self, store: Store, runtime: Runtime) -> RunRef:
        """Once: what was added is gone afterwards."""
        slots = np.array(self._slots, np.uint8)
        filters = Filters(slots, np.where(slots == 0, EVERYTHING, KEPT).astype(np.uint8))
        buckets = self._index.buckets
        output = CuckooOutput(self._index.run_kind, self._index.bits, buckets, (0, buckets), filters)
        for number, (first, end) in enumerate(self._spans):
            empty = np.zeros((end - first, 0), fingerprint_type(self._index.bits))
            output.add(np.concatenate([empty, *self._pieces[number]], axis=1))
            self._pieces[number] = []
        return output.put(store, runtime, encode_granules(self._granules))

    def _keep(self, built: CuckooFilter) -> None:
        for piece, (first, end) in zip(self._pieces, self._spans, strict=True):
            piece.append(built.table[first:end].copy())
