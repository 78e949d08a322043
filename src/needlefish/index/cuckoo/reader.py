"""Probing one cuckoo run, or one part of it."""

from collections.abc import Sequence

import numpy as np

from needlefish.filters.cuckoo_hash import place_of
from needlefish.format.cuckoo_rows import checked_row
from needlefish.format.cuckoo_run import Region, filters_region, rows_region
from needlefish.format.granule_table import GranuleRef
from needlefish.index.cost import Cost, blocks_touched
from needlefish.index.cuckoo.batch import Batch, no_hits, sorted_hits
from needlefish.index.cuckoo.file import CuckooFile
from needlefish.index.cuckoo.filters import Filters, Ordinals
from needlefish.index.cuckoo.search import search_row
from needlefish.index.point import Hashes, Hits
from needlefish.model.log import RunRef
from needlefish.store import Store


class CuckooReader:
    """A PointReader. It keeps the filter table, which the first probe reads along with its rows."""

    def __init__(self, ref: RunRef) -> None:
        self.ref = ref
        self._file = CuckooFile(ref)
        self._point = self._file.point
        self._filters: Filters | None = None

    def probe(self, store: Store, hashes: Hashes) -> Hits:
        """Two rows for each hash; of a part, those it has. Many hashes read each row once, in stripes."""
        if not len(hashes) or not self._point.granules:
            return no_hits()
        if len(hashes) == 1:
            ordinals = self._probe_one(store, int(hashes[0]))
            return sorted_hits(np.zeros(len(ordinals), np.int64), ordinals)
        filters = self._filters or self._load(store)
        return Batch(self._file, filters, np.ascontiguousarray(hashes, np.uint64)).hits(store)

    def granules(self, store: Store, ordinals: Sequence[int]) -> list[GranuleRef]:
        return self._file.granules(store, ordinals)

    def expected_of_probe(self, hashes: int) -> Cost:
        """Of a part, about its share of the rows."""
        if not hashes or not self._point.granules:
            return Cost()
        share = (self._point.end - self._point.first) / self._point.buckets
        rows = 2 * share if hashes == 1 else blocks_touched(self._point.buckets, 2 * hashes) * share
        table = Cost() if self._filters is not None else Cost(requests=1, bytes=filters_region(self._point).length)
        return table + Cost(requests=round(rows), bytes=round(rows * self._point.row_bytes))

    def _probe_one(self, store: Store, hashed: int) -> Ordinals:
        first, second, fingerprint = place_of(hashed, self._point.buckets, self._point.bits)
        buckets = [bucket for bucket in dict.fromkeys((first, second)) if self._point.first <= bucket < self._point.end]
        if not buckets:
            return np.zeros(0, np.int64)
        rows = self._fetch(store, [rows_region(self._point, bucket, bucket + 1) for bucket in buckets])
        filters = self._filters
        assert filters is not None
        found = [self._owners(data, bucket, fingerprint, filters) for data, bucket in zip(rows, buckets, strict=True)]
        # Said once in all parts of a run: by the one that has the first bucket.
        everything = filters.everything if first in buckets else filters.everything[:0]
        return np.concatenate([*found, everything])

    def _owners(self, data: bytes, bucket: int, fingerprint: int, filters: Filters) -> Ordinals:
        row = checked_row(data, self._point.row_bytes, bucket, self._file.path)
        positions = search_row(row, self._point.bits, filters.total_slots, fingerprint)
        if not len(positions):
            return positions
        owners = filters.owners(positions)
        return owners[filters.kept(owners)]

    def _fetch(self, store: Store, regions: list[Region]) -> list[bytes]:
        """The regions, in one call with the filter table if that is not here yet."""
        if self._filters is not None:
            return self._file.read(store, regions)
        *found, table = self._file.read(store, [*regions, filters_region(self._point)])
        self._filters = Filters.decoded(table, self._point, self._file.path)
        return found

    def _load(self, store: Store) -> Filters:
        # Threads that come here at once all read it, and all the same.
        self._filters = filters = self._file.filters(store)
        return filters
