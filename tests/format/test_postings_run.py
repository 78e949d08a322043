"""Directory, heads, hot lists and trailer of a postings file: bytes as specified, and every flip seen."""

from dataclasses import replace

import numpy as np
import pytest
import xxhash

from needlefish.errors import CorruptError
from needlefish.format.checksum import checksum
from needlefish.format.postings_page import (
    HotSlot,
    PageHead,
    decode_head,
    decode_head_words,
    decode_hot_list,
    decode_hots,
    encode_hot_list,
    head_words,
)
from needlefish.format.postings_run import (
    DIRECTORY_BYTES,
    PageRef,
    check_trailer,
    checked_page,
    decode_page_ref,
    encode_page_ref,
    encode_trailer,
    places,
)
from needlefish.model.log import RunId, RunRef
from needlefish.model.point_index import PointRun

POINT = PointRun(kind="postings", keys=10, granules=3, first=4, end=9, slots=100, page_slots=10)
PAGE = PageRef(2**40 + 5, 4096, 2**63 + 1)


def ref_with(trailer: bytes) -> RunRef:
    return RunRef(
        id=RunId("1"), kind="index/a", bytes=5000, header_bytes=len(trailer), header_checksum=checksum(trailer), records=10, point=POINT
    )


def flips(data: bytes) -> list[bytes]:
    return [data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] for at in range(len(data))]


def test_a_directory_record_has_the_bytes_of_the_specification() -> None:
    record = encode_page_ref(7, PAGE)
    body = (2**40 + 5).to_bytes(8, "little") + (4096).to_bytes(4, "little") + (2**63 + 1).to_bytes(8, "little")
    assert record == body + (xxhash.xxh64_intdigest(body, 7) & 0xFFFF_FFFF).to_bytes(4, "little")
    assert len(record) == DIRECTORY_BYTES == 24
    assert decode_page_ref(record, 7, "path") == PAGE


def test_a_directory_record_is_only_its_own_pages() -> None:
    record = encode_page_ref(7, PAGE)
    for damaged in (*flips(record), record[:-1], b""):
        with pytest.raises(CorruptError, match="page 7"):
            decode_page_ref(damaged, 7, "path")
    with pytest.raises(CorruptError, match="page 8"):
        decode_page_ref(record, 8, "path")


def test_a_page_is_checked() -> None:
    data = b"some words of it"
    ref = PageRef(0, len(data), xxhash.xxh64_intdigest(data))
    assert checked_page(data, ref, 1, "path") == data
    for damaged in (*flips(data), data[:-1], data + b"x"):
        with pytest.raises(CorruptError, match="page 1"):
            checked_page(damaged, ref, 1, "path")


def test_heads_are_words() -> None:
    words = head_words(np.array([1900, 0]), np.array([2, 65535]), np.array([14, 0]))
    assert words.tolist() == [1900 | 2 << 32 | 14 << 48, 65535 << 32]
    assert [found.tolist() for found in decode_head_words(words)] == [[1900, 0], [2, 65535], [14, 0]]
    assert decode_head(words[:1].tobytes()) == PageHead(1900, 2, 14)


def test_hot_slots_stand_at_the_end_of_their_page() -> None:
    hots = [HotSlot(2**40, 8, 2**64 - 1, 300, 257), HotSlot(2**40 + 1, 308, 5, 20, 1000)]
    page = b"x" * 24 + b"".join(hot.encode() for hot in hots)
    assert len(hots[0].encode()) == 32
    assert decode_hots(page, 2) == hots
    assert decode_hots(page, 0) == []


def test_hot_lists_are_bitmaps_and_most_granules_are_all() -> None:
    listed = encode_hot_list(range(0, 1000, 3), 1000)
    hot = HotSlot(1, 0, xxhash.xxh64_intdigest(listed), len(listed), 334)
    assert list(decode_hot_list(listed, hot, "path")) == list(range(0, 1000, 3))
    for damaged in (*flips(listed), listed[:-1]):
        with pytest.raises(CorruptError, match="hot slot 1"):
            decode_hot_list(damaged, hot, "path")
    assert len(encode_hot_list(range(500_001), 1_000_000)) < 256
    everywhere = encode_hot_list(range(1002), 2000)
    hot = HotSlot(1, 0, xxhash.xxh64_intdigest(everywhere), len(everywhere), 2000)
    assert list(decode_hot_list(everywhere, hot, "path")) == list(range(2000))


def test_places_follow_from_the_reference() -> None:
    trailer = encode_trailer("index/a", POINT)
    at = places(ref_with(trailer))
    assert (at.end, at.trailer) == (5000, 5000 - len(trailer))
    assert (at.trailer - at.granules, at.granules - at.directory) == (3 * 32, 5 * 24)


def test_a_trailer_is_the_logs() -> None:
    trailer = encode_trailer("index/a", POINT)
    check_trailer(trailer, ref_with(trailer), "path")
    for damaged in (*flips(trailer), trailer[:-1]):
        with pytest.raises(CorruptError, match="trailer"):
            check_trailer(damaged, ref_with(trailer), "path")
    with pytest.raises(CorruptError, match="disagree"):
        check_trailer(trailer, replace(ref_with(trailer), point=replace(POINT, keys=11)), "path")
