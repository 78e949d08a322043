"""Puts the pieces of a postings run together: stretches of pages in order, then everything as one object."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from needlefish.format.checksum import checksum
from needlefish.format.postings_page import WORD_BYTES
from needlefish.format.postings_run import PageRef, encode_page_ref, encode_trailer
from needlefish.format.run import index_run_path
from needlefish.index.postings.encode import EncodedStretch, Stretch, encode_stretch
from needlefish.index.postings.shape import Shape
from needlefish.model.log import RunId, RunRef
from needlefish.model.point_index import PointRun
from needlefish.runtime import Runtime, in_parallel
from needlefish.store import Store


class Assembly:
    """A run, or part of one, that grows page by page. Memory holds its encoded bytes."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._encoded: list[EncodedStretch] = []
        self._hot_bytes = 0

    def add(self, stretches: Sequence[Stretch]) -> None:
        """The stretches that follow, encoded side by side."""
        hot_ats = accumulate((stretch.hot_bytes for stretch in stretches), initial=self._hot_bytes)
        todo = list(zip(stretches, hot_ats, strict=False))
        self._encoded += in_parallel(lambda item: encode_stretch(item[0], self._shape, item[1]), todo)
        self._hot_bytes += sum(stretch.hot_bytes for stretch in stretches)

    def put(self, store: Store, runtime: Runtime, kind: str, point: PointRun, granule_table: bytes) -> RunRef:
        """A crash after the put leaves an orphan that no version names."""
        point = replace(point, keys=sum(stretch.keys for stretch in self._encoded))
        trailer = encode_trailer(kind, point)
        # Pages are words, and readers look at them as such in place.
        padding = bytes(-self._hot_bytes % WORD_BYTES)
        hot_data = [stretch.hot_data for stretch in self._encoded]
        pages = [stretch.data for stretch in self._encoded]
        directory = b"".join(self._directory(point.first, self._hot_bytes + len(padding)))
        data = b"".join([*hot_data, padding, *pages, directory, granule_table, trailer])
        run_id = RunId(runtime.new_id())
        store.put(index_run_path(kind, "postings", run_id), data)
        return RunRef(
            id=run_id,
            kind=kind,
            bytes=len(data),
            header_bytes=len(trailer),
            header_checksum=checksum(trailer),
            records=point.keys,
            point=point,
        )

    def _directory(self, number: int, offset: int) -> Iterable[bytes]:
        for stretch in self._encoded:
            for length, page_checksum in zip(stretch.lengths, stretch.checksums, strict=True):
                yield encode_page_ref(number, PageRef(offset, length, page_checksum))
                number += 1
                offset += length
