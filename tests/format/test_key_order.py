"""Key order: bytes sort exactly as the typed values do, for every type a key can have."""

# Times without a zone are a type of column here.
# ruff: noqa: DTZ001

import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from needlefish.format.key_order import encode_key, encode_value, lower_bound, micros_of, upper_bound

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.text(st.sampled_from("\x00\x01\x7fÿ\U0001f41fa"), max_size=4)
_FLOATS = st.floats() | st.sampled_from([-0.0, 0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324])
_DECIMALS = st.integers(-(10**38) + 1, 10**38 - 1)


def _decimal(units: int, scale: int) -> Decimal:
    sign, digits = int(units < 0), tuple(map(int, str(abs(units))))
    return Decimal((sign, digits, -scale))


_PLAIN = {
    "boolean": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "uint8": (pa.uint8(), st.integers(0, 255)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), _FLOATS),
    "decimal(38,0)": (pa.decimal128(38, 0), _DECIMALS.map(lambda units: _decimal(units, 0))),
    "decimal(38,38)": (pa.decimal128(38, 38), _DECIMALS.map(lambda units: _decimal(units, 38))),
    "decimal(5,2)": (pa.decimal128(5, 2), st.integers(-99999, 99999).map(lambda units: _decimal(units, 2))),
    "string": (pa.string(), _TEXTS),
    "binary": (
        pa.binary(),
        st.binary(max_size=6) | st.text(st.sampled_from("\x00\x01ÿ"), max_size=4).map(lambda text: text.encode("latin-1")),
    ),
    "date": (pa.date32(), st.dates()),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        st.datetimes(
            timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))]),
            min_value=datetime(2, 1, 1),
            max_value=datetime(9998, 1, 1),
        ),
    ),
    "timestamp_ntz": (pa.timestamp("us"), st.datetimes()),
}


def _typed(value: Any) -> Any:
    """What Python can compare: NaN last and one zero, texts as their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("kind", list(_PLAIN))
def test_bytes_sort_as_values_do(kind: str) -> None:
    arrow, values = _PLAIN[kind]

    @given(one=values, other=values)
    def agrees(one: Any, other: Any) -> None:
        left, right = encode_value(one, arrow), encode_value(other, arrow)
        assert (left < right) == (_typed(one) < _typed(other))
        assert (left == right) == (_typed(one) == _typed(other))
        # Arrow's own value encodes like Python's.
        assert encode_value(pa.scalar(one, arrow).as_py(), arrow) == left

    agrees()


@given(
    one=st.tuples(_TEXTS, _FLOATS, st.binary(max_size=3), st.integers(-5, 5)),
    other=st.tuples(_TEXTS, _FLOATS, st.binary(max_size=3), st.integers(-5, 5)),
    length=st.integers(1, 4),
)
@example(one=("a", 0.0, b"", 0), other=("a\x00", 0.0, b"", 0), length=4)
@example(one=("a\x00", -1.0, b"", 0), other=("a", 1.0, b"", 0), length=2)
def test_composite_keys_sort_column_by_column(one: tuple[Any, ...], other: tuple[Any, ...], length: int) -> None:
    types = [pa.string(), pa.float64(), pa.binary(), pa.int8()]
    left, right = encode_key(one, types), encode_key(other, types)
    assert (left < right) == (tuple(map(_typed, one)) < tuple(map(_typed, other)))
    # A prefix of the columns is a prefix of the bytes, of this key and of no other.
    prefix = encode_key(one[:length], types)
    assert left.startswith(prefix)
    assert right.startswith(prefix) == (tuple(map(_typed, one[:length])) == tuple(map(_typed, other[:length])))


@given(
    key=st.binary(max_size=12) | st.text(st.sampled_from("aÿ"), max_size=8).map(lambda text: text.encode("latin-1")),
    limit=st.integers(1, 8),
)
def test_bounds_round_outwards(key: bytes, limit: int) -> None:
    low, high = lower_bound(key, limit), upper_bound(key, limit)
    assert low <= key <= high
    assert len(low) <= limit
    assert len(high) <= limit or key[:limit] == b"\xff" * limit
    assert lower_bound(key, 100) == key == upper_bound(key, 100)


def test_the_bytes_are_pinned() -> None:
    """Do not change: they are in every file list."""
    assert encode_value(True, pa.bool_()) == b"\x01"
    assert encode_value(-1, pa.int8()).hex() == "7fffffffffffffff"
    assert encode_value(-1, pa.int8()) == encode_value(-1, pa.int64())
    assert encode_value(1, pa.uint8()).hex() == "0000000000000001"
    assert encode_value(1.0, pa.float64()).hex() == "bff0000000000000"
    assert encode_value(-1.0, pa.float32()).hex() == "400fffffffffffff"
    assert encode_value(-0.0, pa.float64()) == encode_value(0.0, pa.float64())
    assert encode_value(struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0], pa.float64()) == b"\xff" * 8
    assert encode_value("a\x00b", pa.string()) == b"a\x00\xffb\x00\x00"
    assert encode_value("", pa.string()) == b"\x00\x00"
    assert encode_value(Decimal("-0.01"), pa.decimal128(5, 2)).hex() == "7fffffffffffffffffffffffffffffff"
    assert encode_value(date(1970, 1, 2), pa.date32()).hex() == "8000000000000001"
    assert encode_value(datetime(1969, 12, 31, 23, 59, 59, 999999), pa.timestamp("us")).hex() == "7fffffffffffffff"
    assert encode_value(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), pa.timestamp("us", "UTC")).hex() == "8000000000000000"


@given(moment=st.datetimes())
def test_microseconds_are_exact(moment: datetime) -> None:
    assert micros_of(moment) == pa.scalar(moment, pa.timestamp("us")).value
    assert micros_of(moment.replace(tzinfo=UTC)) == micros_of(moment)


def test_what_cannot_be_in_a_key_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="cannot be part of a key"):
        encode_value(None, pa.int8())
