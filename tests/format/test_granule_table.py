"""The granule table: records of 32 bytes as specified, each seen to be damaged, and chunksets told apart without texts."""

import base64
import hashlib
from itertools import pairwise

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from needlefish.errors import CorruptError
from needlefish.format.granule_table import (
    RECORD_BYTES,
    WHOLE_FILE,
    GranuleRef,
    check_granules,
    chunkset_keys,
    chunkset_ranges,
    decode_granules,
    encode_granules,
    kept_granules,
)


def key_of(number: int) -> str:
    digest = hashlib.sha256(str(number).encode()).digest()
    return base64.b64encode(digest[:8]).decode() + base64.b64encode(digest[8:24]).decode()


GRANULES = st.lists(st.builds(GranuleRef, st.integers(0, 5).map(key_of), st.integers(0, 2**32 - 1) | st.just(WHOLE_FILE)), max_size=30)


@given(granules=GRANULES)
def test_granules_come_back(granules: list[GranuleRef]) -> None:
    data = encode_granules(granules)
    assert len(data) == RECORD_BYTES * len(granules)
    assert decode_granules(data, "path") == granules
    check_granules(data, "path")


def test_a_record_has_the_bytes_of_the_specification() -> None:
    data = encode_granules([GranuleRef(key_of(1), 258)])
    digest = hashlib.sha256(b"1").digest()
    assert data[:28] == digest[:24] + b"\x02\x01\x00\x00"
    assert data[28:] == (xxhash.xxh64_intdigest(data[:28]) & 0xFFFF_FFFF).to_bytes(4, "little")


def test_every_flipped_byte_is_seen() -> None:
    data = encode_granules([GranuleRef(key_of(1), 0), GranuleRef(key_of(2), WHOLE_FILE)])
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        for read in (decode_granules, check_granules):
            with pytest.raises(CorruptError, match=r"a/path: .*checksum"):
                read(bytes(damaged), "a/path")


@pytest.mark.parametrize("read", [decode_granules, check_granules])
def test_half_a_record_is_damage(read: object) -> None:
    with pytest.raises(CorruptError, match="ends inside a record"):
        read(encode_granules([GranuleRef(key_of(1), 0)])[:-1], "path")  # type: ignore[operator]


@given(granules=GRANULES, data=st.data())
def test_chunksets_of_neighbours_and_records_that_stay(granules: list[GranuleRef], data: st.DataObject) -> None:
    table = encode_granules(granules)
    keys, counts = chunkset_ranges(table)
    assert [key for key, count in zip(keys, counts.tolist(), strict=True) for _ in range(count)] == [found.key for found in granules]
    assert all(one != other for one, other in pairwise(keys))
    assert len(chunkset_keys(table)) == len(granules)
    kept = data.draw(st.lists(st.booleans(), min_size=len(granules), max_size=len(granules)))
    wanted = [found for found, keep in zip(granules, kept, strict=True) if keep]
    assert decode_granules(kept_granules(table, np.array(kept, np.bool_)), "path") == wanted
