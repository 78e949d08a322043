"""Row keys as bytes that sort as the typed values do, column after column.

Integers of one sign class share a width, so that widening a column leaves old bytes comparable with new ones. Texts
and binaries end in a mark below every continuation. NaN is the greatest number and equal to itself; -0.0 equals 0.0.
"""

import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal

import pyarrow as pa

_SIGN = 1 << 63
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MICROSECOND = timedelta(microseconds=1)
# 38 digits need 127 bits and a sign.
_DECIMAL_BYTES = 16
# Python rounds to 28 digits unless told otherwise.
_EXACT = Context(prec=80)


def encode_key(values: Sequence[object], types: Sequence[pa.DataType]) -> bytes:
    """The key, or a leading part of it: a prefix of the columns gives a prefix of the bytes."""
    return b"".join(encode_value(value, kind) for value, kind in zip(values, types, strict=False))


def encode_value(value: object, kind: pa.DataType) -> bytes:
    """One value of a key column; the caller has made sure that it is of the column's type."""
    match value:
        case bool():
            return bytes([value])
        case int():
            return _encode_int(value, unsigned=pa.types.is_unsigned_integer(kind))
        case float():
            return _encode_float(value)
        case str():
            return _encode_bytes(value.encode())
        case bytes():
            return _encode_bytes(value)
        case Decimal():
            return _encode_decimal(value, kind.scale)
        case datetime():
            return _encode_int(micros_of(value), unsigned=False)
        case date():
            return _encode_int(value.toordinal() - _EPOCH_DAY, unsigned=False)
    raise AssertionError(f"{value!r} cannot be part of a key")


def lower_bound(key: bytes, limit: int) -> bytes:
    """At most `limit` bytes that are not above `key`."""
    return key[:limit]


def upper_bound(key: bytes, limit: int) -> bytes:
    """Bytes that are not below `key`: at most `limit` of them, unless `key` begins with nothing but 0xFF."""
    if len(key) <= limit:
        return key
    kept = key[:limit].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else key


def micros_of(value: datetime) -> int:
    """Microseconds since 1970, in UTC for an instant and as read for a wall-clock time."""
    epoch = datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else UTC)
    return (value - epoch) // _MICROSECOND


def _encode_int(value: int, *, unsigned: bool) -> bytes:
    return struct.pack(">Q", value if unsigned else value + _SIGN)


def _encode_float(value: float) -> bytes:
    if math.isnan(value):
        return b"\xff" * 8
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))
    return struct.pack(">Q", bits ^ (0xFFFFFFFFFFFFFFFF if bits & _SIGN else _SIGN))


def _encode_bytes(value: bytes) -> bytes:
    return value.replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _encode_decimal(value: Decimal, scale: int) -> bytes:
    unscaled = int(value.scaleb(scale, _EXACT))
    return (unscaled + (1 << (8 * _DECIMAL_BYTES - 1))).to_bytes(_DECIMAL_BYTES, "big")
