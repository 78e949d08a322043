"""Putting a cuckoo run: rows in the order of buckets, then the tables and the trailer."""

from io import BytesIO

import numpy as np

from needlefish.format.checksum import checksum
from needlefish.format.cuckoo_rows import Cells, pack_rows, row_bytes_for
from needlefish.format.cuckoo_run import CuckooTrailer, encode_filters, encode_trailer
from needlefish.format.run import index_run_path
from needlefish.index.cuckoo.filters import Filters
from needlefish.model.log import FORMAT, RunId, RunRef
from needlefish.model.point_index import PointRun
from needlefish.runtime import Runtime
from needlefish.store import Store


class CuckooOutput:
    """One run file on its way. Memory holds its bytes, once: what `getvalue` returns is the buffer itself."""

    def __init__(self, kind: str, bits: int, buckets: int, part: tuple[int, int], filters: Filters) -> None:
        self._kind = kind
        self._bits = bits
        self._buckets = buckets
        self._first, self._end = part
        self._filters = filters
        self._next = self._first
        self._keys = 0
        self._data = BytesIO()

    def add(self, cells: Cells) -> None:
        """The next rows: of each bucket the slots of every filter."""
        assert cells.shape[1] == self._filters.total_slots, "rows have the slots of every filter"
        self._data.write(pack_rows(cells, self._bits, self._next).data)
        self._keys += int(np.count_nonzero(cells))
        self._next += len(cells)

    def put(self, store: Store, runtime: Runtime, granule_table: bytes, version: int | None = None) -> RunRef:
        """A crash after it leaves an orphan that no version names."""
        assert self._next == self._end, f"rows up to bucket {self._next} of {self._end}"
        trailer = encode_trailer(self._trailer())
        for part in (granule_table, encode_filters(self._filters.slots, self._filters.states), trailer):
            self._data.write(part)
        data = self._data.getvalue()
        run_id = RunId(runtime.new_id())
        store.put(index_run_path(self._kind, "cuckoo", run_id), data)
        return RunRef(
            id=run_id,
            kind=self._kind,
            bytes=len(data),
            header_bytes=len(trailer),
            header_checksum=checksum(trailer),
            records=len(self._filters),
            version=version,
            point=self._point(),
        )

    def _trailer(self) -> CuckooTrailer:
        return CuckooTrailer(format=FORMAT, kind=self._kind, records=len(self._filters), point=self._point())

    def _point(self) -> PointRun:
        return PointRun(
            kind="cuckoo",
            keys=self._keys,
            granules=len(self._filters),
            first=self._first,
            end=self._end,
            bits=self._bits,
            buckets=self._buckets,
            row_bytes=row_bytes_for(self._filters.total_slots, self._bits),
        )
