"""Checks every byte of a postings file, a few MiB at a time."""

from collections.abc import Callable, Iterator

from needlefish.errors import CorruptError, NotFoundError
from needlefish.format.granule_table import RECORD_BYTES, check_granules
from needlefish.format.postings_page import HotSlot, decode_head, decode_hot_list, decode_hots
from needlefish.format.postings_run import DIRECTORY_BYTES, PageRef, check_trailer, checked_page, decode_page_ref, places
from needlefish.format.run import path_of
from needlefish.index.postings.shape import point_of
from needlefish.model.log import RunRef
from needlefish.store import ByteRange, Store

# The bytes from a place up to another.
Read = Callable[[int, int], bytes]

# Pages, and granules, that are read together: some 4 MiB.
_CALL_PAGES = 1024
_CALL_GRANULES = 131_072
_CALL_HOT_BYTES = 4 * 1024 * 1024


def verify_postings(store: Store, ref: RunRef) -> None:
    """Raises CorruptError at the first byte that is not as the log says."""
    path = path_of(ref)

    def read(start: int, end: int) -> bytes:
        try:
            return store.get_range(path, ByteRange(start, end - start))
        except NotFoundError as error:
            raise CorruptError(f"{path}: missing, though a version has it") from error

    if read(ref.bytes, ref.bytes + 1):
        raise CorruptError(f"{path}: longer than the {ref.bytes} bytes that the log knows")
    verify_bytes(read, ref, path)


def verify_bytes(read: Read, ref: RunRef, path: str) -> None:
    """The same of a file that somebody else reads."""
    at = places(ref)
    check_trailer(read(at.trailer, at.end), ref, path)
    for start in range(at.granules, at.trailer, _CALL_GRANULES * RECORD_BYTES):
        _check_granules(read, start, min(start + _CALL_GRANULES * RECORD_BYTES, at.trailer), path)
    hot_end, pages_at = 0, None
    for refs, hots in _checked_pages(read, ref, path):
        pages_at = refs[0].offset if pages_at is None else pages_at
        hot_end = _check_hots(read, hots, hot_end, path)
    if any(read(hot_end, at.directory if pages_at is None else pages_at)):
        raise CorruptError(f"{path}: something lies between the hot lists and the pages")


def _check_granules(read: Read, start: int, end: int, path: str) -> None:
    data = read(start, end)
    if len(data) != end - start:
        raise CorruptError(f"{path}: ends before byte {end}")
    check_granules(data, path)


def _checked_pages(read: Read, ref: RunRef, path: str) -> Iterator[tuple[list[PageRef], list[HotSlot]]]:
    """Some pages at a time, and the hot slots in them. They follow each other up to the directory."""
    point, directory = point_of(ref), places(ref).directory
    page_end = None
    for first in range(point.first, point.end, _CALL_PAGES):
        numbers = range(first, min(first + _CALL_PAGES, point.end))
        start = directory + (first - point.first) * DIRECTORY_BYTES
        records = read(start, start + len(numbers) * DIRECTORY_BYTES)
        refs = [
            decode_page_ref(records[at * DIRECTORY_BYTES : (at + 1) * DIRECTORY_BYTES], number, path) for at, number in enumerate(numbers)
        ]
        yield refs, _check_pages(read, refs, numbers, page_end, path)
        page_end = refs[-1].offset + refs[-1].length
    if page_end not in (None, directory):
        raise CorruptError(f"{path}: the last page does not end where the directory begins")


def _check_pages(read: Read, refs: list[PageRef], numbers: range, page_end: int | None, path: str) -> list[HotSlot]:
    start = refs[0].offset
    data = read(start, refs[-1].offset + refs[-1].length)
    hots: list[HotSlot] = []
    for ref, number in zip(refs, numbers, strict=True):
        if page_end not in (None, ref.offset):
            raise CorruptError(f"{path}: page {number} does not begin where the one before it ends")
        page_end = ref.offset + ref.length
        page = checked_page(data[ref.offset - start : page_end - start], ref, number, path)
        hots += decode_hots(page, decode_head(page).hots) if page else []
    return hots


def _check_hots(read: Read, hots: list[HotSlot], hot_end: int, path: str) -> int:
    """Hot lists follow each other from `hot_end`; returns where they end."""
    while hots:
        call = _first_call(hots)
        data = read(hot_end, hot_end + sum(hot.length for hot in call))
        start = hot_end
        for hot in call:
            if hot.offset != hot_end:
                raise CorruptError(f"{path}: the list of the hot slot {hot.slot} does not begin where the one before it ends")
            hot_end += hot.length
            decode_hot_list(data[hot.offset - start : hot_end - start], hot, path)
        hots = hots[len(call) :]
    return hot_end


def _first_call(hots: list[HotSlot]) -> list[HotSlot]:
    """Those that one request asks for: at least one."""
    count, size = 1, hots[0].length
    while count < len(hots) and size + hots[count].length <= _CALL_HOT_BYTES:
        size += hots[count].length
        count += 1
    return hots[:count]
