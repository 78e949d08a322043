"""Every path of the hash against an encoder written anew here, straight from Parquet's description of PLAIN."""

import decimal
import math
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.errors import InvalidError
from needlefish.filters.hash import hash_array, hash_key, hash_key_value, hash_value
from needlefish.filters.plain_type import INT32, INT64, INT96, Physical, PlainType, decimal_width

Encode = Callable[[object], bytes]
per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=15)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001


def little(size: int, *, signed: bool = True) -> Encode:
    return lambda value: int(value).to_bytes(size, "little", signed=signed)  # type: ignore[call-overload]


def days(value: object) -> bytes:
    assert isinstance(value, date)
    return struct.pack("<i", (value - date(1970, 1, 1)).days)


def since_epoch(unit: timedelta, factor: int = 1) -> Encode:
    return lambda value: struct.pack("<q", (value.replace(tzinfo=None) - EPOCH) // unit * factor)  # type: ignore[attr-defined]


def of_day(code: str, per_second: int) -> Encode:
    def encode(value: object) -> bytes:
        assert isinstance(value, time)
        micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return struct.pack(code, micros * per_second // 1_000_000)

    return encode


def unscaled(width: int) -> Encode:
    def encode(value: object) -> bytes:
        assert isinstance(value, decimal.Decimal)
        sign, digits, _ = value.as_tuple()
        return ((-1) ** sign * int("".join(map(str, digits)))).to_bytes(width, "big", signed=True)

    return encode


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    top = 10**precision - 1
    # A tuple, because arithmetic would round to the context's 28 digits.
    return st.integers(-top, top).map(lambda n: decimal.Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))


seconds = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda t: t.replace(microsecond=0))  # noqa: DTZ001
millis = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))  # noqa: DTZ001
micros = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001
texts = st.text(max_size=80)
blobs = st.binary(max_size=100)
utf8: Encode = lambda value: str(value).encode()  # noqa: E731
raw: Encode = lambda value: bytes(value)  # type: ignore[call-overload]  # noqa: E731

CASES: list[tuple[pa.DataType, st.SearchStrategy[object], Encode]] = [
    *((kind, integers(kind.bit_width), little(4)) for kind in (pa.int8(), pa.int16(), pa.int32())),
    *((kind, integers(kind.bit_width, signed=False), little(4, signed=False)) for kind in (pa.uint8(), pa.uint16(), pa.uint32())),
    (pa.int64(), integers(64), little(8)),
    (pa.uint64(), integers(64, signed=False), little(8, signed=False)),
    (pa.bool_(), st.booleans(), little(1)),
    (pa.float16(), st.floats(width=16, allow_nan=False).map(np.float16), lambda value: struct.pack("<e", value)),
    (pa.float32(), st.floats(width=32, allow_nan=False), lambda value: struct.pack("<f", value)),
    (pa.float64(), st.floats(allow_nan=False), lambda value: struct.pack("<d", value)),
    (pa.decimal32(7, 2), decimals(7, 2), unscaled(4)),
    (pa.decimal64(18, 4), decimals(18, 4), unscaled(8)),
    (pa.decimal128(2, 0), decimals(2, 0), unscaled(1)),
    (pa.decimal128(9, 3), decimals(9, 3), unscaled(4)),
    (pa.decimal128(20, 10), decimals(20, 10), unscaled(9)),
    (pa.decimal128(28, 5), decimals(28, 5), unscaled(12)),
    (pa.decimal128(38, 18), decimals(38, 18), unscaled(16)),
    (pa.decimal256(28, 0), decimals(28, 0), unscaled(12)),
    (pa.decimal256(76, 2), decimals(76, 2), unscaled(32)),
    (pa.string(), texts, utf8),
    (pa.large_string(), texts, utf8),
    (pa.string_view(), texts, utf8),
    (pa.binary(), blobs, raw),
    (pa.large_binary(), blobs, raw),
    (pa.binary_view(), blobs, raw),
    (pa.binary(5), st.binary(min_size=5, max_size=5), raw),
    (pa.binary(16), st.binary(min_size=16, max_size=16), raw),
    (pa.binary(40), st.binary(min_size=40, max_size=40), raw),
    (pa.date32(), st.dates(), days),
    (pa.date64(), st.dates(), days),
    (pa.time32("s"), st.times().map(lambda t: t.replace(microsecond=0)), of_day("<i", 1000)),
    (pa.time32("ms"), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)), of_day("<i", 1000)),
    (pa.time64("us"), st.times(), of_day("<q", 1_000_000)),
    (pa.timestamp("s"), seconds, since_epoch(timedelta(seconds=1), 1000)),
    (pa.timestamp("ms"), millis, since_epoch(timedelta(milliseconds=1))),
    (pa.timestamp("us"), micros, since_epoch(timedelta(microseconds=1))),
    (pa.timestamp("us", tz="UTC"), micros.map(lambda t: t.replace(tzinfo=UTC)), since_epoch(timedelta(microseconds=1))),
    (pa.timestamp("ns"), micros, since_epoch(timedelta(microseconds=1), 1000)),
    (
        pa.duration("us"),
        st.integers(-(10**12), 10**12).map(lambda n: timedelta(microseconds=n)),
        lambda v: struct.pack("<q", v // timedelta(microseconds=1)),
    ),  # type: ignore[operator]
]


@pytest.mark.parametrize(("kind", "values", "encode"), CASES, ids=lambda case: str(case) if isinstance(case, pa.DataType) else "")
@given(data=st.data())
@per_engine
def test_arrays_and_scalars_hash_the_plain_encoding(
    engine: str, kind: pa.DataType, values: st.SearchStrategy[object], encode: Encode, data: st.DataObject
) -> None:
    given_values = data.draw(st.lists(st.none() | values, max_size=12))
    array = pa.array(given_values, kind)
    hashed = hash_array(array)
    expected = [0 if value is None else xxhash.xxh64_intdigest(encode(value)) for value in given_values]
    assert hashed.hashes.tolist() == expected
    assert hashed.present().tolist() == [number for value, number in zip(given_values, expected, strict=True) if value is not None]
    for value, number in zip(given_values, expected, strict=True):
        if value is not None:
            assert hash_value(value, kind) == number


KINDS = [case[0] for case in CASES]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
@per_engine
def test_slices_chunks_and_dictionaries_hash_as_the_plain_array(engine: str, kind: pa.DataType, data: st.DataObject) -> None:
    values = next(case[1] for case in CASES if case[0] == kind)
    array = pa.array(data.draw(st.lists(st.none() | values, min_size=1, max_size=12)), kind)
    whole = hash_array(array)
    cut = data.draw(st.integers(0, len(array)))
    assert hash_array(array[cut:]).hashes.tolist() == whole.hashes[cut:].tolist()
    assert hash_array(array[:cut]).hashes.tolist() == whole.hashes[:cut].tolist()
    assert hash_array(pa.chunked_array([array[:cut], array[cut:]], kind)).hashes.tolist() == whole.hashes.tolist()
    if not pa.types.is_float16(kind) and not pa.types.is_decimal(kind) and kind not in (pa.string_view(), pa.binary_view()):
        encoded = array.dictionary_encode()
        assert hash_array(encoded).hashes.tolist() == whole.hashes.tolist()
        assert hash_array(encoded[cut:]).hashes.tolist() == whole.hashes[cut:].tolist()


def test_a_dictionary_with_null_words_and_null_rows_masks_both(engine: str) -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0, 1, 0]), pa.array(["a", None]))
    hashed = hash_array(array)
    assert hashed.valid is not None
    assert hashed.valid.tolist() == [True, False, False, True, False, True]
    assert set(hashed.present().tolist()) == {hash_value("a", pa.string())}


@pytest.mark.parametrize("kind", [*KINDS, pa.null()], ids=str)
def test_empty_and_all_null_arrays(engine: str, kind: pa.DataType) -> None:
    assert len(hash_array(pa.array([], kind))) == 0
    assert hash_array(pa.chunked_array([], kind)).present().tolist() == []
    nulls = hash_array(pa.nulls(3, kind))
    assert (nulls.hashes.tolist(), nulls.present().tolist()) == ([0, 0, 0], [])


@given(st.lists(st.tuples(st.none() | integers(64), st.none() | texts, st.none() | integers(32)), min_size=1, max_size=20))
@per_engine
def test_composite_keys_hash_prefixed_parts(engine: str, rows: list[tuple[int | None, str | None, int | None]]) -> None:
    kinds = [pa.int64(), pa.string(), pa.int32()]
    hashed = hash_key([pa.array(part, kind) for part, kind in zip(zip(*rows, strict=True), kinds, strict=True)])
    for row, number in zip(rows, hashed.hashes.tolist(), strict=True):
        if None in row:
            assert number == 0
            continue
        text = row[1].encode()  # type: ignore[union-attr]
        joined = struct.pack("<Iq", 8, row[0]) + struct.pack("<I", len(text)) + text + struct.pack("<Ii", 4, row[2])
        assert number == xxhash.xxh64_intdigest(joined) == hash_key_value(row, kinds)
    assert len(hashed.present()) == sum(None not in row for row in rows)


def test_a_key_of_one_column_hashes_as_the_column(engine: str) -> None:
    array = pa.array(["a", None, "b"])
    assert hash_key([array]).hashes.tolist() == hash_array(array).hashes.tolist()
    assert hash_key_value(["a"], [pa.string()]) == hash_value("a", pa.string())


def test_length_prefixes_keep_shifted_keys_apart() -> None:
    kinds = [pa.string(), pa.string()]
    assert hash_key_value(["ab", "c"], kinds) != hash_key_value(["a", "bc"], kinds)


def test_composite_keys_take_dictionaries_chunks_and_slices(engine: str) -> None:
    names = pa.chunked_array([pa.array(["x", "y"]), pa.array(["z", None])])
    plain = hash_key([names, pa.array([1, 2, 3, 4])])
    assert hash_key([names.dictionary_encode(), pa.array([0, 1, 2, 3, 4])[1:]]).hashes.tolist() == plain.hashes.tolist()


def test_decimals_stored_as_integers_hash_the_integer(engine: str) -> None:
    array = pa.array([decimal.Decimal("-1.25"), None, decimal.Decimal("99.99")], pa.decimal128(9, 2))
    for stored, size in ((INT32, 4), (INT64, 8)):
        expected = [xxhash.xxh64_intdigest((n).to_bytes(size, "little", signed=True)) for n in (-125, 9999)]
        assert hash_array(array, stored=stored).present().tolist() == expected
    wide = PlainType.of(Physical.FIXED_LEN_BYTE_ARRAY, 20)
    assert hash_array(array, stored=wide).present().tolist()[0] == xxhash.xxh64_intdigest((-125).to_bytes(20, "big", signed=True))


def test_int96_timestamps_hash_nanoseconds_of_the_day_and_the_julian_day(engine: str) -> None:
    array = pa.array([datetime(1969, 12, 31, 23, 59, 59), datetime(1970, 1, 1, 0, 0, 0, 5)], pa.timestamp("us"))  # noqa: DTZ001
    expected = [struct.pack("<qi", 86_399_000_000_000, 2_440_587), struct.pack("<qi", 5000, 2_440_588)]
    assert hash_array(array, stored=INT96).hashes.tolist() == [xxhash.xxh64_intdigest(data) for data in expected]


def test_extension_arrays_hash_their_storage(engine: str) -> None:
    blobs16 = pa.array([b"0123456789abcdef", None])
    array = pa.ExtensionArray.from_storage(pa.uuid(), blobs16.cast(pa.binary(16)))
    assert hash_array(array).hashes.tolist() == hash_array(blobs16.cast(pa.binary(16))).hashes.tolist()


def test_nan_hashes_its_bits_and_negative_zero_is_its_own(engine: str) -> None:
    hashes = hash_array(pa.array([math.nan, 0.0, -0.0])).hashes.tolist()
    assert len(set(hashes)) == 3


@pytest.mark.parametrize(("precision", "width"), [(1, 1), (2, 1), (3, 2), (4, 2), (9, 4), (18, 8), (19, 9), (38, 16), (76, 32)])
def test_decimal_widths_are_parquets(precision: int, width: int) -> None:
    assert decimal_width(precision) == width


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, pa.int32()),
        (float("nan"), pa.int64()),
        ("x", pa.int64()),
        (1.5, pa.int64()),
        (decimal.Decimal("1.5"), pa.int64()),
        (decimal.Decimal("1.234"), pa.decimal128(5, 2)),
        (2**40, pa.int32()),
        (-1, pa.uint8()),
        (b"abc", pa.binary(4)),
        (3, pa.string()),
        (datetime(2026, 1, 1, 5), pa.date32()),  # noqa: DTZ001
        (datetime(2026, 1, 1, 0, 0, 0, 5), pa.timestamp("ms")),  # noqa: DTZ001
        (time(1, 1, 1, 5), pa.time32("ms")),
        (pa.scalar(1.5), pa.int64()),
        (pa.scalar(None, pa.int64()), pa.int64()),
        (timedelta(microseconds=5), pa.duration("s")),
    ],
)
def test_values_that_do_not_fit_are_refused(value: object, kind: pa.DataType) -> None:
    with pytest.raises(InvalidError):
        hash_value(value, kind)


def test_scalars_of_arrow_are_cast_to_the_columns_type() -> None:
    assert hash_value(pa.scalar(7, pa.int64()), pa.int32()) == hash_value(7, pa.int32())


@pytest.mark.parametrize("kind", [pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.month_day_nano_interval()], ids=str)
def test_types_without_a_plain_encoding_are_refused(kind: pa.DataType) -> None:
    with pytest.raises(InvalidError, match="plain encoding"):
        hash_array(pa.nulls(2, kind))


def test_keys_of_uneven_columns_or_missing_values_are_refused() -> None:
    with pytest.raises(InvalidError, match="rows"):
        hash_key([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(InvalidError, match="columns"):
        hash_key_value([1], [pa.int64(), pa.int64()])


def test_a_physical_type_that_cannot_hold_the_values_is_refused() -> None:
    with pytest.raises(InvalidError, match="INT32"):
        hash_array(pa.array(["a"]), stored=INT32)
