"""Arrow arrays of fixed width as Parquet stores them: the bytes of every value, one after the other.

Little-endian as in memory for most types; decimals are big-endian, small integers are widened to 32 bits.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from needlefish.errors import InvalidError
from needlefish.filters.plain_type import BOOLEAN, DOUBLE, FLOAT, INT32, INT64, INT96, Physical, PlainType

Bytes = NDArray[np.uint8]

_DAY_MS = 86_400_000
_DAY_NS = 86_400_000_000_000
# The Julian day number of 1970-01-01, from which INT96 counts days.
_JULIAN_EPOCH = 2_440_588
_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def encode_numbers(array: pa.Array, stored: PlainType) -> Bytes:
    """`stored.width` bytes per value; slots of nulls hold whatever was there."""
    return np.ascontiguousarray(_encoder(array.type)(array, stored)).reshape(-1).view(np.uint8)


def bytes_of(buffer: pa.Buffer | None) -> Bytes:
    """A view of an Arrow buffer, which may be absent when nothing is in it."""
    return np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def expect(array: pa.Array, stored: PlainType, *able: PlainType) -> None:
    """Refuses a physical type that cannot hold the values."""
    if stored not in able:
        raise InvalidError(
            f"stored {stored.physical.name}: values of type {array.type} cannot be stored so; cast them to the column's type"
        )


def _encoder(kind: pa.DataType) -> Callable[[pa.Array, PlainType], NDArray[np.generic]]:
    if kinds.is_decimal(kind):
        return _decimal
    if kinds.is_fixed_size_binary(kind) or kinds.is_float16(kind):
        return _fixed_bytes
    if kinds.is_floating(kind):
        return _floating
    if kinds.is_timestamp(kind):
        return _timestamp
    if kinds.is_boolean(kind):
        return _boolean
    return _integer


def _numbers(array: pa.Array, dtype: str) -> NDArray[np.generic]:
    """The slice of the value buffer that belongs to `array`; slots of nulls hold whatever was there."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(0, dtype)
    return np.frombuffer(buffer, dtype, count=array.offset + len(array))[array.offset :]


def _boolean(array: pa.Array, stored: PlainType) -> NDArray[np.generic]:
    # Parquet packs booleans into bits and keeps no filter for them; ours are one byte, 0 or 1.
    expect(array, stored, BOOLEAN)
    return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False), np.uint8)


def _integer(array: pa.Array, stored: PlainType) -> NDArray[np.generic]:
    expect(array, stored, INT32, INT64)
    kind = array.type
    signed = not kinds.is_unsigned_integer(kind)
    values = _numbers(array, f"<{'i' if signed else 'u'}{kind.bit_width // 8}")
    if kinds.is_date64(kind):
        values = np.asarray(values, np.int64) // _DAY_MS
    if kinds.is_time32(kind) and kind.unit == "s":
        values = np.asarray(values, np.int32) * np.int32(1000)
    return values.astype(np.dtype(f"<{'i' if signed else 'u'}{stored.width}"), copy=False)


def _floating(array: pa.Array, stored: PlainType) -> NDArray[np.generic]:
    expect(array, stored, FLOAT if kinds.is_float32(array.type) else DOUBLE)
    return _numbers(array, f"<f{stored.width}")


def _fixed_bytes(array: pa.Array, stored: PlainType) -> NDArray[np.generic]:
    width = array.type.bit_width // 8
    expect(array, stored, PlainType.of(Physical.FIXED_LEN_BYTE_ARRAY, width))
    buffer = bytes_of(array.buffers()[1])
    return buffer[array.offset * width : (array.offset + len(array)) * width]


def _decimal(array: pa.Array, stored: PlainType) -> NDArray[np.generic]:
    """Big-endian two's complement of the stored width, or a little-endian integer."""
    size = array.type.bit_width // 8
    little = bytes_of(array.buffers()[1])[array.offset * size : (array.offset + len(array)) * size].reshape(-1, size)
    if stored in (INT32, INT64):
        return _resized(little, stored.width or 0)
    if stored.physical is not Physical.FIXED_LEN_BYTE_ARRAY:
        raise InvalidError(f"stored {stored.physical.name}: {array.type} is hashed as INT32, INT64 or FIXED_LEN_BYTE_ARRAY only")
    width = stored.width or 0
    # Swapping whole words takes two thirds of the time of reversing bytes.
    return _resized(little, width)[:, ::-1] if width > size else _big_endian(little)[:, size - width :]


def _resized(little: Bytes, width: int) -> Bytes:
    """Narrower drops high bytes, which are the sign alone for a value that fits; wider repeats the sign."""
    size = little.shape[1]
    if width <= size:
        return little[:, :width]
    sign = np.where(little[:, -1:] >= 128, np.uint8(255), np.uint8(0))
    return np.concatenate([little, np.repeat(sign, width - size, axis=1)], axis=1)


def _big_endian(little: Bytes) -> Bytes:
    words = little.view(f"<u{min(little.shape[1], 8)}")
    return words[:, ::-1].byteswap().view(np.uint8)


def _timestamp(array: pa.Array, stored: PlainType) -> NDArray[np.generic]:
    expect(array, stored, INT64, INT96)
    values = np.asarray(_numbers(array, "<i8"), np.int64)
    if stored == INT96:
        return _int96(values, _UNIT_NS[array.type.unit])
    # Parquet has no unit of seconds; writers store milliseconds.
    return values * np.int64(1000) if array.type.unit == "s" else values


def _int96(values: NDArray[np.int64], unit_ns: int) -> NDArray[np.generic]:
    """Nanoseconds of the day in 8 bytes, then the Julian day in 4, both little-endian."""
    per_day = _DAY_NS // unit_ns
    out = np.empty(len(values), np.dtype([("nanos", "<i8"), ("day", "<i4")]))
    out["nanos"] = (values % per_day) * unit_ns
    out["day"] = values // per_day + _JULIAN_EPOCH
    return out
