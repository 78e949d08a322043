"""Footers: what is found in real ones, and what made-up ones of every broken kind raise."""

import io
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.errors import CorruptError, InvalidError, NeedlefishError, UnsupportedError
from needlefish.format.bloom_footer import BloomFooter, decode_footer, footer_length
from needlefish.format.encryption_metadata import FooterKeys
from needlefish.format.thrift import encode_varint, encode_zigzag

STOP = b"\x00"


def decode(data: bytes, *, sealed: bool = False) -> BloomFooter:
    return decode_footer(data, sealed=sealed, keys=FooterKeys(), what="made.parquet")


def real_footer(table: pa.Table, **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    data = sink.getvalue()
    length, sealed = footer_length(data[-8:], "x")
    assert not sealed
    return data[-8 - length : -8]


KINDS = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.decimal256(50, 3), pa.string(), pa.binary(), pa.binary(7),
    pa.date32(), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.timestamp("ms"), pa.timestamp("us", tz="UTC"), pa.timestamp("ns"),
]  # fmt: skip


@pytest.mark.parametrize("version", ["1.0", "2.6"])
def test_types_of_leaves_are_read_from_logical_and_converted_types(version: str) -> None:
    schema = pa.schema([pa.field(f"c{number}", kind) for number, kind in enumerate(KINDS)])
    footer = decode(real_footer(schema.empty_table(), version=version))
    read = {leaf.path: leaf.kind for leaf in footer.leaves}
    for name, kind in zip(schema.names, KINDS, strict=True):
        if version == "2.6":
            assert read[name] == kind
        elif kind not in (pa.uint32(), pa.time64("ns"), pa.timestamp("ns")):
            assert read[name].id == kind.id


def test_leaves_of_nested_columns_have_dotted_paths() -> None:
    kind = pa.struct(
        [
            ("x", pa.int32()),
            ("deep", pa.struct([("y", pa.string())])),
            ("many", pa.list_(pa.int64())),
            ("map", pa.map_(pa.string(), pa.int8())),
        ]
    )
    footer = decode(real_footer(pa.table({"a": pa.nulls(2, kind), "b": [1, 2]})))
    assert [leaf.path for leaf in footer.leaves] == [
        "a.x",
        "a.deep.y",
        "a.many.list.element",
        "a.map.key_value.key",
        "a.map.key_value.value",
        "b",
    ]
    assert [chunk.column for chunk in footer.chunks] == [0, 1, 2, 3, 4, 5]


def field(delta: int, kind: int, body: bytes = b"") -> bytes:
    return bytes([delta << 4 | kind]) + body


def items(kind: int, *bodies: bytes) -> bytes:
    return (bytes([len(bodies) << 4 | kind]) if len(bodies) < 15 else bytes([0xF0 | kind]) + encode_varint(len(bodies))) + b"".join(bodies)


def text(value: str) -> bytes:
    return encode_varint(len(value)) + value.encode()


def leaf(name: str, physical: int = 2) -> bytes:
    return field(1, 5, encode_zigzag(physical)) + field(3, 8, text(name)) + STOP


def group(name: str, children: int) -> bytes:
    return field(4, 8, text(name)) + field(1, 5, encode_zigzag(children)) + STOP


def footer_of(schema: bytes, row_groups: bytes = b"", more: bytes = b"") -> bytes:
    groups = field(2, 9, row_groups) if row_groups else b""
    return field(2, 9, schema) + groups + more + STOP


def row_group(*chunks: bytes) -> bytes:
    return field(1, 9, items(12, *chunks)) + field(2, 6, encode_zigzag(10)) + STOP


PLAIN_CHUNK = field(3, 12, STOP) + STOP
SEALED_CHUNK = field(3, 12, STOP) + field(5, 12, field(1, 12, STOP) + STOP) + STOP
ROOT = items(12, group("root", 1), leaf("a"))


def test_a_made_up_footer_reads() -> None:
    footer = decode(footer_of(ROOT, items(12, row_group(PLAIN_CHUNK), row_group(PLAIN_CHUNK))))
    assert [chunk.row_group for chunk in footer.chunks] == [0, 1]
    assert [(chunk.rows, chunk.offset, chunk.length) for chunk in footer.chunks] == [(10, None, None)] * 2


BROKEN = {
    "no schema": (footer_of(items(12)), "schema is empty"),
    "row groups alone": (field(4, 9, items(12, row_group())) + STOP, "without a schema"),
    "too few elements": (footer_of(items(12, group("root", 3), leaf("a"))), "fewer elements"),
    "too many elements": (footer_of(items(12, group("root", 1), leaf("a"), leaf("b"))), "more elements"),
    "negative children": (footer_of(items(12, group("root", -1), leaf("a"))), "fewer elements"),
    "hostile nesting": (footer_of(items(12, *[group("g", 1) for _ in range(200)])), "deeper than 100"),
    "a name that is no text": (footer_of(items(12, group("root", 1), field(1, 5, b"\x04") + field(3, 8, b"\x01\xff") + STOP)), "not UTF-8"),
    "columns missing in a row group": (footer_of(ROOT, items(12, row_group())), "0 columns where the schema has 1"),
    "sealed without an algorithm": (footer_of(ROOT, items(12, row_group(SEALED_CHUNK))), "names no algorithm"),
    "algorithm without a member": (footer_of(ROOT, b"", field(6, 12, STOP)), "names no member"),
    "signature missing": (footer_of(ROOT, b"", field(6, 12, field(1, 12, STOP) + STOP)), "signature of 0 bytes"),
}


@pytest.mark.parametrize(("data", "problem"), BROKEN.values(), ids=BROKEN)
def test_broken_footers_are_damage(data: bytes, problem: str) -> None:
    with pytest.raises(CorruptError, match=f"made.parquet.*{problem}"):
        decode(data)


def test_unknown_encryption_algorithms_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="algorithm number 3"):
        decode(footer_of(ROOT, b"", field(6, 12, field(3, 12, STOP) + STOP)))


def test_a_negative_row_group_number_in_an_encrypted_file_is_damage() -> None:
    sealed = field(1, 9, items(12, SEALED_CHUNK)) + field(6, 4, encode_zigzag(-1)) + STOP
    data = footer_of(ROOT, items(12, sealed), field(4, 12, field(1, 12, STOP) + STOP)) + bytes(28)
    with pytest.raises(CorruptError, match="row group number -1"):
        decode(data)


def test_a_sealed_footer_needs_crypto_metadata_and_a_key() -> None:
    with pytest.raises(CorruptError, match="names no algorithm"):
        decode(STOP, sealed=True)
    with pytest.raises(InvalidError, match="pass keys"):
        decode(field(1, 12, field(1, 12, STOP) + STOP) + STOP, sealed=True)


@pytest.mark.parametrize("end", [b"", b"PAR1", b"\0\0\0\0PAR2"])
def test_ends_without_the_magic_are_damage(end: bytes) -> None:
    with pytest.raises(CorruptError, match="not a Parquet file"):
        footer_length(end, "x")


REAL = real_footer(
    pa.table({"a": [1, 2, 3], "b": ["x", None, "z"], "c": [{"d": 1.5}] * 3}), bloom_filter_options={"a": {"ndv": 10, "fpp": 0.1}}
)


@given(st.binary(max_size=120), st.booleans())
@settings(max_examples=500)
def test_random_footers_only_raise_our_errors(data: bytes, sealed: bool) -> None:
    try:
        decode(data, sealed=sealed)
    except NeedlefishError:
        return


@given(st.integers(0, len(REAL) - 1), st.integers(0, 3), st.binary(max_size=4))
@settings(max_examples=1000)
def test_damaged_real_footers_only_raise_our_errors(at: int, removed: int, inserted: bytes) -> None:
    with suppress(CorruptError, UnsupportedError, InvalidError):
        footer = decode(REAL[:at] + inserted + REAL[at + removed :])
        assert all(chunk.column < len(footer.leaves) for chunk in footer.chunks)
