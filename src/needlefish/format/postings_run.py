"""The file of a postings run: hot lists, pages, directory, granule table, trailer. Normative text: spec/postings.md.

Where directory, granule table and trailer lie follows from the log's reference alone, so that nothing is read to find them.
"""

import struct
from dataclasses import dataclass

import xxhash

from needlefish.errors import CorruptError
from needlefish.format.checksum import checksum
from needlefish.format.envelope import seal, unseal
from needlefish.format.granule_table import RECORD_BYTES
from needlefish.model.log import FORMAT, RunRef
from needlefish.model.point_index import PointRun

# Offset and length of the page, its checksum, and the record's own.
_DIRECTORY = struct.Struct("<QIQI")
_BODY = struct.Struct("<QIQ")
DIRECTORY_BYTES = _DIRECTORY.size


@dataclass(frozen=True, slots=True, kw_only=True)
class PostingsTrailer:
    """What makes the file speak for itself."""

    format: int
    kind: str
    point: PointRun


@dataclass(frozen=True, slots=True)
class PageRef:
    """Where a page lies; a page of no bytes has nothing in it."""

    offset: int
    length: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Places:
    """Where the parts of a run's file begin, and where the last of them ends."""

    directory: int
    granules: int
    trailer: int
    end: int


def places(ref: RunRef) -> Places:
    assert ref.point is not None
    trailer = ref.bytes - ref.header_bytes
    granules = trailer - ref.point.granules * RECORD_BYTES
    directory = granules - (ref.point.end - ref.point.first) * DIRECTORY_BYTES
    return Places(directory, granules, trailer, ref.bytes)


def encode_page_ref(number: int, page: PageRef) -> bytes:
    """The record's own checksum is seeded with the page's number, so that no record passes for its neighbour."""
    body = _BODY.pack(page.offset, page.length, page.checksum)
    return body + _own(body, number).to_bytes(4, "little")


def decode_page_ref(record: bytes, number: int, path: str) -> PageRef:
    if len(record) != DIRECTORY_BYTES:
        raise CorruptError(f"{path}: ends before the directory's record of page {number}")
    offset, length, page_checksum, own = _DIRECTORY.unpack(record)
    if _own(record[: _BODY.size], number) != own:
        raise CorruptError(f"{path}: the directory's record of page {number} does not fit its checksum")
    return PageRef(offset, length, page_checksum)


def _own(body: bytes, number: int) -> int:
    return xxhash.xxh64_intdigest(body, number) & 0xFFFF_FFFF


def checked_page(data: bytes, page: PageRef, number: int, path: str) -> bytes:
    """The page's bytes, if they are those that the directory means."""
    if len(data) != page.length or xxhash.xxh64_intdigest(data) != page.checksum:
        raise CorruptError(f"{path}: page {number} does not fit its checksum")
    return data


def encode_trailer(kind: str, point: PointRun) -> bytes:
    return seal(PostingsTrailer(format=FORMAT, kind=kind, point=point))


def check_trailer(data: bytes, ref: RunRef, path: str) -> None:
    """The trailer is the one that the log knows, and says of the run what the log says."""
    if checksum(data) != ref.header_checksum:
        raise CorruptError(f"{path}: the trailer does not fit its checksum")
    if unseal(data, PostingsTrailer, path).point != ref.point:
        raise CorruptError(f"{path}: the trailer and the log disagree")
