"""Reading regions of one cuckoo run file."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from needlefish.errors import CorruptError, NotFoundError
from needlefish.format.cuckoo_rows import Cells, Rows, check_rows, rows_of, unpack_rows
from needlefish.format.cuckoo_run import Region, filters_region, granules_region, rows_region
from needlefish.format.granule_table import GranuleRef, decode_granules
from needlefish.format.run import path_of
from needlefish.index.cuckoo.filters import Filters
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointRun
from needlefish.store import ByteRange, Store

# What a pass over rows holds of a file at once, unless a single row is larger.
STRIPE_BYTES = 8 * 1024 * 1024
# Records of the granule table that are read in vain rather than asked around: 1 KiB, far less than a request costs.
_GAP_RECORDS = 32


class CuckooFile:
    """A run file by its reference; what it returns has been checked unless it says otherwise."""

    def __init__(self, ref: RunRef) -> None:
        assert ref.point is not None, f"{ref.kind} is no kind of index run"
        assert ref.point.kind == "cuckoo", f"{ref.kind} has a run of the kind {ref.point.kind}"
        self.ref = ref
        self.point: PointRun = ref.point
        self.path = path_of(ref)

    def read(self, store: Store, regions: Sequence[Region]) -> list[bytes]:
        try:
            return store.get_ranges(self.path, [ByteRange(region.start, region.length) for region in regions])
        except NotFoundError as error:
            # The version names it, so that nothing but damage can have taken it away.
            raise CorruptError(f"{self.path}: missing, though a version has it") from error

    def filters(self, store: Store) -> Filters:
        (data,) = self.read(store, [filters_region(self.point)])
        return Filters.decoded(data, self.point, self.path)

    def granule_table(self, store: Store) -> bytes:
        """As it is: its records have checksums of their own."""
        (data,) = self.read(store, [granules_region(self.point)])
        if len(data) != granules_region(self.point).length:
            raise CorruptError(f"{self.path}: the granule table is cut off")
        return data

    def granules(self, store: Store, ordinals: Sequence[int]) -> list[GranuleRef]:
        """What the ordinals stand for: a small read for each, or one for those that lie close together."""
        stretches = list(_stretches(sorted(set(ordinals))))
        regions = [granules_region(self.point, first, end) for first, end in stretches]
        found: dict[int, GranuleRef] = {}
        for (first, end), region, data in zip(stretches, regions, self.read(store, regions) if regions else (), strict=True):
            if len(data) != region.length:
                raise CorruptError(f"{self.path}: the granule table is cut off")
            found.update(zip(range(first, end), decode_granules(data, self.path), strict=True))
        return [found[ordinal] for ordinal in ordinals]

    def cells(self, store: Store, first: int, end: int, slots: int) -> Cells:
        """The fingerprints of the buckets from `first` up to `end`."""
        (data,) = self.read(store, [rows_region(self.point, first, end)])
        return unpack_rows(self.checked(data, np.arange(first, end)), self.point.bits, slots)

    def checked(self, data: bytes, buckets: NDArray[np.int64]) -> Rows:
        """The rows of these buckets from their bytes, one after the other."""
        rows = rows_of(data, self.point.row_bytes, len(buckets), self.path)
        check_rows(rows, buckets, self.path)
        return rows


def _stretches(ordinals: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Sorted ordinals as ranges, over gaps that are cheaper to read than to leave out."""
    first = end = -1
    for ordinal in ordinals:
        if first >= 0 and ordinal - end > _GAP_RECORDS:
            yield first, end
            first = -1
        first, end = ordinal if first < 0 else first, ordinal + 1
    if first >= 0:
        yield first, end


def stripe_rows(row_bytes: int) -> int:
    """How many rows of a length a pass takes at once."""
    return max(1, STRIPE_BYTES // row_bytes)
