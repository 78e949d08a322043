"""The filter table and the trailer of cuckoo runs, and where they lie."""

import numpy as np
import pytest

from needlefish.errors import CorruptError, UnsupportedError
from needlefish.format.checksum import checksum
from needlefish.format.cuckoo_run import (
    CuckooTrailer,
    decode_filters,
    decode_trailer,
    encode_filters,
    encode_trailer,
    filters_region,
    granules_region,
    rows_region,
)
from needlefish.model.log import FORMAT
from needlefish.model.point_index import PointRun

POINT = PointRun(kind="cuckoo", keys=9, granules=3, first=10, end=15, bits=16, buckets=20, row_bytes=22)
TRAILER = CuckooTrailer(format=FORMAT, kind="index/id", records=3, point=POINT)


def test_regions_follow_each_other() -> None:
    regions = [rows_region(POINT, 10, 15), granules_region(POINT), filters_region(POINT)]
    assert [(region.start, region.length) for region in regions] == [(0, 110), (110, 96), (206, 14)]
    assert rows_region(POINT, 12, 13).start == 44
    assert granules_region(POINT, 2, 3).start == 174


def test_filters_round_trip_and_every_flipped_bit_is_seen() -> None:
    slots, states = np.array([3, 0, 4], np.uint8), np.array([0, 2, 1], np.uint8)
    data = encode_filters(slots, states)
    assert [each.tolist() for each in decode_filters(data, 3, "run")] == [[3, 0, 4], [0, 2, 1]]
    for bit in range(8 * len(data)):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptError, match="filter table"):
            decode_filters(bytes(bad), 3, "run")
    for end in range(len(data)):
        with pytest.raises(CorruptError, match="filter table"):
            decode_filters(data[:end], 3, "run")


def test_the_trailer_can_be_read_from_the_end_of_a_file() -> None:
    data = encode_trailer(TRAILER)
    assert data.endswith(b"NFCK")
    assert int.from_bytes(data[-8:-4], "little") == len(data) - 8
    assert decode_trailer(data, checksum(data), "run") == TRAILER


def test_a_trailer_that_is_not_what_the_log_says_is_refused() -> None:
    data = encode_trailer(TRAILER)
    with pytest.raises(CorruptError, match="checksum"):
        decode_trailer(data[:-1] + b"X", checksum(data), "run")
    foreign = data[:-4] + b"NFPO"
    with pytest.raises(CorruptError, match="end like"):
        decode_trailer(foreign, checksum(foreign), "run")
    newer = encode_trailer(CuckooTrailer(format=FORMAT + 1, kind="index/id", records=3, point=POINT))
    with pytest.raises(UnsupportedError, match="upgrade"):
        decode_trailer(newer, checksum(newer), "run")
