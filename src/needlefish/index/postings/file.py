"""The bytes of one postings file: directory records, pages, hot lists and granules, each checked before it is handed out."""

from collections.abc import Sequence

from pyroaring import BitMap

from needlefish.errors import CorruptError, NotFoundError
from needlefish.format.granule_table import RECORD_BYTES, GranuleRef, check_granules, decode_granules
from needlefish.format.postings_page import HotSlot, decode_hot_list
from needlefish.format.postings_run import DIRECTORY_BYTES, PageRef, checked_page, decode_page_ref, places
from needlefish.format.run import path_of
from needlefish.index.postings.lately import Lately
from needlefish.index.postings.shape import point_of
from needlefish.index.postings.verify import verify_bytes
from needlefish.model.log import RunRef
from needlefish.store import ByteRange, Store
from needlefish.store.spans import read_spans

# A file up to this size is read whole by its first probe, checked whole, and kept.
WHOLE_BYTES = 16 * 1024
# Directory records that are read together: with the largest page they stay below 16 KiB.
DIRECTORY_RECORDS = 64
STRETCH_BYTES = DIRECTORY_RECORDS * DIRECTORY_BYTES
# Stretches of the directory that are kept: 1 MiB.
_STRETCHES = 1024 * 1024 // STRETCH_BYTES
# Of the granule table, which a merge reads whole.
_REQUEST_BYTES = 4 * 1024 * 1024


class PostingsFile:
    """Safe to share between threads. Keeps 1 MiB of directory at most, or a small file whole."""

    def __init__(self, ref: RunRef) -> None:
        self.ref = ref
        self.point = point_of(ref)
        self.path = path_of(ref)
        self.places = places(ref)
        self.is_small = ref.bytes <= WHOLE_BYTES
        self.whole: bytes | None = None
        self._directory: Lately[bytes] = Lately(_STRETCHES)

    def page_refs(self, store: Store, numbers: Sequence[int]) -> list[PageRef]:
        """Of pages in ascending order; what is missing of the directory comes in one call."""
        wanted = {(number - self.point.first) // DIRECTORY_RECORDS for number in numbers}
        stretches = {stretch: self._directory.get(stretch) for stretch in sorted(wanted)}
        missing = [stretch for stretch, data in stretches.items() if data is None]
        for stretch, data in zip(missing, self._read(store, [self._stretch_span(stretch) for stretch in missing]), strict=True):
            self._directory.keep(stretch, data)
            stretches[stretch] = data
        return [self._page_ref(stretches, number) for number in numbers]

    def _page_ref(self, stretches: dict[int, bytes | None], number: int) -> PageRef:
        stretch, place = divmod(number - self.point.first, DIRECTORY_RECORDS)
        data = stretches[stretch]
        assert data is not None
        return decode_page_ref(data[place * DIRECTORY_BYTES : (place + 1) * DIRECTORY_BYTES], number, self.path)

    def _stretch_span(self, stretch: int) -> ByteRange:
        start = self.places.directory + stretch * STRETCH_BYTES
        return ByteRange(start, min(STRETCH_BYTES, self.places.granules - start))

    def pages(self, store: Store, numbers: Sequence[int]) -> list[bytes]:
        """Of pages in ascending order, neighbours read together; empty for a page with nothing in it."""
        refs = self.page_refs(store, numbers)
        found = self._read(store, [ByteRange(ref.offset, ref.length) for ref in refs])
        return [checked_page(data, ref, number, self.path) for data, ref, number in zip(found, refs, numbers, strict=True)]

    def hot_lists(self, store: Store, hots: Sequence[HotSlot]) -> list[BitMap]:
        found = self._read(store, [ByteRange(hot.offset, hot.length) for hot in hots])
        return [decode_hot_list(data, hot, self.path) for data, hot in zip(found, hots, strict=True)]

    def granules(self, store: Store, ordinals: Sequence[int]) -> list[GranuleRef]:
        assert all(0 <= ordinal < self.point.granules for ordinal in ordinals)
        start = self.places.granules
        found = self._read(store, [ByteRange(start + ordinal * RECORD_BYTES, RECORD_BYTES) for ordinal in ordinals])
        return decode_granules(b"".join(found), self.path)

    def granule_table(self, store: Store) -> bytes:
        """All records, checked."""
        start, end = self.places.granules, self.places.trailer
        spans = [ByteRange(at, min(_REQUEST_BYTES, end - at)) for at in range(start, end, _REQUEST_BYTES)]
        data = b"".join(self._read(store, [span])[0] for span in spans)
        check_granules(data, self.path)
        return data

    def _read(self, store: Store, spans: list[ByteRange]) -> list[bytes]:
        """Spans that touch become one."""
        if self.is_small:
            whole = self._loaded(store)
            return [whole[span.start : span.end] for span in spans]
        if len(spans) == 1:
            return [self._get(store, spans)[0]]
        return read_spans(spans, 0, lambda joined: self._get(store, joined))

    def _get(self, store: Store, spans: list[ByteRange]) -> list[bytes]:
        try:
            found = [store.get_range(self.path, spans[0])] if len(spans) == 1 else store.get_ranges(self.path, spans)
        except NotFoundError as error:
            # The version names it, so that nothing but damage can have taken it away.
            raise CorruptError(f"{self.path}: missing, though a version has it") from error
        for data, span in zip(found, spans, strict=True):
            if len(data) != span.length:
                raise CorruptError(f"{self.path}: ends before byte {span.end}")
        return found

    def _loaded(self, store: Store) -> bytes:
        if self.whole is None:
            (data,) = self._get(store, [ByteRange(0, self.ref.bytes)])
            verify_bytes(lambda start, end: data[start:end], self.ref, self.path)
            self.whole = data
        return self.whole
