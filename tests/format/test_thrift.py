"""The compact protocol's reader: what it understands, what it skips, and that hostile bytes only ever raise CorruptError."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.errors import CorruptError
from needlefish.format.thrift import BINARY, BYTE, I16, I32, I64, LIST, STRUCT, TRUE, CompactReader, encode_varint, encode_zigzag


def reader(data: bytes) -> CompactReader:
    return CompactReader(data, "test bytes")


@pytest.mark.parametrize(("kind", "bits"), [(I16, 16), (I32, 32), (I64, 64)])
@given(data=st.data())
def test_numbers_survive_the_round_trip(kind: int, bits: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1))
    assert reader(encode_zigzag(value)).number(kind, kind) == value


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1])
def test_a_number_wider_than_its_type_is_damage(value: int) -> None:
    with pytest.raises(CorruptError, match="32 bits"):
        reader(encode_zigzag(value)).number(I32, I32)


def test_fields_carry_deltas_and_long_ids() -> None:
    found = reader(bytes([0x11, 0x22, 0x03]) + encode_zigzag(300) + bytes([0x07, 0x00]))
    ids = []
    for field, kind in found.fields():
        ids.append((field, kind))
        found.skip(kind)
    assert ids == [(1, 1), (3, 2), (300, 3)]


# A value of each type as it stands behind its field header.
VALUES = {
    "true": (1, b""),
    "false": (2, b""),
    "byte": (3, b"\x07"),
    "i16": (4, encode_zigzag(-5)),
    "i32": (5, encode_zigzag(70_000)),
    "i64": (6, encode_zigzag(-(2**60))),
    "double": (7, bytes(8)),
    "binary": (8, b"\x03abc"),
    "short list": (9, b"\x35" + bytes(3)),
    "long list": (9, b"\xf5" + encode_varint(20) + bytes(20)),
    "list of booleans": (9, b"\x21\x01\x02"),
    "set": (10, b"\x18\x01a"),
    "empty map": (11, b"\x00"),
    "map": (11, b"\x02\x85\x01a\x02\x01b\x04"),
    "struct": (12, b"\x15\x02\x00"),
    "uuid": (13, bytes(16)),
}


@pytest.mark.parametrize(("kind", "body"), VALUES.values(), ids=VALUES)
def test_every_type_is_skipped_to_its_end(kind: int, body: bytes) -> None:
    found = reader(body)
    found.skip(kind)
    assert found.at == len(body)


@pytest.mark.parametrize(
    ("kind", "body"), [case for case in VALUES.values() if case[1]], ids=[name for name, case in VALUES.items() if case[1]]
)
def test_every_type_cut_short_is_damage(kind: int, body: bytes) -> None:
    with pytest.raises(CorruptError, match="test bytes"):
        reader(body[:-1]).skip(kind)


def test_a_boolean_carries_its_value_in_its_type() -> None:
    assert reader(b"").boolean(TRUE) is True
    with pytest.raises(CorruptError, match="boolean"):
        reader(b"").boolean(BYTE)


def test_a_known_field_of_another_type_is_damage() -> None:
    for call in (
        lambda r: r.number(BINARY, I32),
        lambda r: r.binary(I32),
        lambda r: list(r.struct(I32)),
        lambda r: list(r.items(STRUCT, I32)),
    ):
        with pytest.raises(CorruptError, match="type"):
            call(reader(bytes(10)))


def test_a_list_of_other_elements_is_damage() -> None:
    with pytest.raises(CorruptError, match="type"):
        list(reader(b"\x15\x02").items(LIST, STRUCT))


def test_claimed_sizes_beyond_the_bytes_are_refused_before_any_work() -> None:
    with pytest.raises(CorruptError, match="elements"):
        reader(b"\xf5" + encode_varint(2**31)).skip(LIST)
    with pytest.raises(CorruptError, match="bytes wanted"):
        reader(encode_varint(2**31) + b"abc").binary(BINARY)


@pytest.mark.parametrize("nest", [b"\x1c", b"\x19", b"\x1b\x01\xcc"])
def test_hostile_nesting_is_bounded(nest: bytes) -> None:
    with pytest.raises(CorruptError):
        reader(nest * 100_000).skip(STRUCT)


def test_a_number_that_never_ends_is_damage() -> None:
    with pytest.raises(CorruptError, match="does not end"):
        reader(b"\x80" * 1000).number(I64, I64)


@given(st.binary(max_size=200), st.integers(1, 13))
@settings(max_examples=500)
def test_random_bytes_only_raise_corrupt_error(data: bytes, kind: int) -> None:
    found = reader(data)
    try:
        found.skip(kind)
    except CorruptError:
        return
    assert found.at <= len(data)
