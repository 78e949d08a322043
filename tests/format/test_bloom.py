"""The filter's header and bitset: canonical bytes, unknown members, damage of every kind."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.errors import CorruptError, NeedlefishError, UnsupportedError
from needlefish.format.bloom import BloomHeader, decode_filter, encode_filter, measure_filter

# 1,024 bytes, as pyarrow 26, parquet-mr, DuckDB and arrow-rs all write it.
CANONICAL = bytes.fromhex("158010" + "1c1c00001c1c00001c1c000000")


def test_the_header_is_byte_for_byte_what_other_writers_write() -> None:
    assert BloomHeader(bitset_bytes=1024).encode() == CANONICAL
    assert BloomHeader.decode(CANONICAL, "x") == (BloomHeader(bitset_bytes=1024), len(CANONICAL))


@given(st.integers(1, (2**31 - 1) // 32))
def test_headers_of_every_size_survive(blocks: int) -> None:
    header = BloomHeader(bitset_bytes=blocks * 32)
    assert BloomHeader.decode(header.encode() + b"bitset", "x") == (header, len(header.encode()))


@given(st.integers(1, 20).flatmap(lambda blocks: st.binary(min_size=blocks * 32, max_size=blocks * 32)))
def test_filters_survive(bitset: bytes) -> None:
    data = encode_filter(bitset)
    assert decode_filter(data, "x") == bitset
    assert encode_filter(bytes(decode_filter(data, "x"))) == data
    assert measure_filter(data[:20], "x") == len(data)


# Which union carries an unknown member, and where the member's field header stands in the canonical bytes.
@pytest.mark.parametrize(("at", "name"), [(4, "algorithm"), (8, "hash"), (12, "compression")])
def test_unknown_union_members_are_unsupported(at: int, name: str) -> None:
    assert CANONICAL[at] == 0x1C
    data = bytearray(CANONICAL)
    data[at] = 0x2C
    with pytest.raises(UnsupportedError, match=f"file.parquet.*{name} number 2"):
        BloomHeader.decode(bytes(data), "file.parquet")


def test_an_empty_union_and_one_of_two_members_are_damage() -> None:
    with pytest.raises(CorruptError, match="algorithm names 0"):
        BloomHeader.decode(bytes.fromhex("1580101c00" + "1c1c00001c1c000000"), "x")
    with pytest.raises(CorruptError, match="algorithm names 2"):
        BloomHeader.decode(bytes.fromhex("1580101c1c001c0000" + "1c1c00001c1c000000"), "x")


def test_a_union_member_that_is_no_structure_is_damage() -> None:
    with pytest.raises(CorruptError, match="not a structure"):
        BloomHeader.decode(bytes.fromhex("1580101c150200" + "1c1c00001c1c000000"), "x")


def test_unknown_fields_of_a_newer_header_are_skipped() -> None:
    newer = CANONICAL[:-1] + bytes.fromhex("15081803616263" + "00")
    assert BloomHeader.decode(newer, "x") == (BloomHeader(bitset_bytes=1024), len(newer))


@pytest.mark.parametrize("missing", ["1c1c00001c1c00001c1c000000".replace("1c", "2c", 1), "1580101c1c00001c1c000000", "15801000"])
def test_a_missing_field_is_damage(missing: str) -> None:
    with pytest.raises(CorruptError, match="required field"):
        BloomHeader.decode(bytes.fromhex(missing), "x")


@pytest.mark.parametrize("size", [0, -32, 1, 31, 33, 1000])
def test_sizes_that_are_no_blocks_are_damage(size: int) -> None:
    with pytest.raises(CorruptError, match="multiple of 32"):
        BloomHeader.decode(BloomHeader(bitset_bytes=size).encode(), "x")


@pytest.mark.parametrize("cut", range(1, 17))
def test_truncated_headers_are_damage(cut: int) -> None:
    with pytest.raises(CorruptError, match="x: "):
        BloomHeader.decode(CANONICAL[:-cut], "x")


@pytest.mark.parametrize("change", [b"", b"extra"])
def test_a_bitset_longer_or_shorter_than_stated_is_damage(change: bytes) -> None:
    data = encode_filter(bytes(64))
    with pytest.raises(CorruptError, match="header and bitset take"):
        decode_filter(data + change if change else data[:-1], "x")


@given(st.binary(max_size=64))
@settings(max_examples=1000)
def test_random_headers_only_raise_our_errors(data: bytes) -> None:
    try:
        header, used = BloomHeader.decode(data, "x")
    except NeedlefishError:
        return
    assert used <= len(data)
    assert header.bitset_bytes % 32 == 0


@given(st.integers(0, len(CANONICAL) - 1), st.integers(0, 255), st.binary(max_size=8))
@settings(max_examples=1000)
def test_flipped_headers_only_raise_our_errors(at: int, byte: int, tail: bytes) -> None:
    data = bytearray(CANONICAL + tail)
    data[at] = byte
    with suppress(CorruptError, UnsupportedError):
        BloomHeader.decode(bytes(data), "x")
