"""Which Parquet physical type carries the values of an Arrow type.

The hash is taken over plain-encoded bytes, so this choice is part of every index. The defaults are those of pyarrow's
writer, which writes our chunksets; a file of another writer passes what its own footer says.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

import pyarrow as pa
import pyarrow.types as kinds

from needlefish.errors import InvalidError


class Physical(IntEnum):
    """Parquet's own numbers: do not renumber."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


WIDTHS = {Physical.BOOLEAN: 1, Physical.INT32: 4, Physical.INT64: 8, Physical.INT96: 12, Physical.FLOAT: 4, Physical.DOUBLE: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainType:
    """A physical type and its bytes per value; `width` is None where each value brings its own length."""

    physical: Physical
    width: int | None

    @classmethod
    def of(cls, physical: Physical, type_length: int | None = None) -> "PlainType":
        """As a Parquet schema states it: only FIXED_LEN_BYTE_ARRAY needs a length."""
        if physical is Physical.FIXED_LEN_BYTE_ARRAY:
            if type_length is None or type_length < 0:
                raise InvalidError(f"type_length {type_length!r}: FIXED_LEN_BYTE_ARRAY needs the number of bytes of a value")
            return cls(physical=physical, width=type_length)
        return cls(physical=physical, width=WIDTHS.get(physical))


BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY = (PlainType.of(physical) for physical in list(Physical)[:7])


@lru_cache(maxsize=1024)
def plain_type(kind: pa.DataType, *, decimals_as_integers: bool = False) -> PlainType:
    """How pyarrow's writer stores `kind`; `decimals_as_integers` is its `store_decimal_as_integer`."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type, decimals_as_integers=decimals_as_integers)
    if kinds.is_dictionary(kind):
        return plain_type(kind.value_type, decimals_as_integers=decimals_as_integers)
    if kinds.is_decimal(kind):
        return _decimal_type(kind.precision, decimals_as_integers)
    found = _number_type(kind) or _bytes_type(kind)
    if found is None:
        raise InvalidError(f"type {kind} has no plain encoding to hash; index its leaf columns, or cast it")
    return found


def _number_type(kind: pa.DataType) -> PlainType | None:
    if kinds.is_boolean(kind):
        return BOOLEAN
    if kinds.is_float32(kind):
        return FLOAT
    if kinds.is_float64(kind):
        return DOUBLE
    if kinds.is_date(kind) or kinds.is_time32(kind) or (kinds.is_integer(kind) and kind.bit_width <= 32):
        return INT32
    if kinds.is_integer(kind) or kinds.is_time64(kind) or kinds.is_timestamp(kind) or kinds.is_duration(kind):
        return INT64
    return None


def _bytes_type(kind: pa.DataType) -> PlainType | None:
    if is_variable_binary(kind) or kinds.is_null(kind):
        return BYTE_ARRAY
    if kinds.is_float16(kind):
        return PlainType.of(Physical.FIXED_LEN_BYTE_ARRAY, 2)
    if kinds.is_fixed_size_binary(kind):
        return PlainType.of(Physical.FIXED_LEN_BYTE_ARRAY, kind.byte_width)
    return None


def is_variable_binary(kind: pa.DataType) -> bool:
    """Strings and binaries of any offset width, and their views."""
    return bool(
        kinds.is_string(kind)
        or kinds.is_binary(kind)
        or kinds.is_large_string(kind)
        or kinds.is_large_binary(kind)
        or kinds.is_string_view(kind)
        or kinds.is_binary_view(kind)
    )


def _decimal_type(precision: int, as_integers: bool) -> PlainType:
    # 9 and 18 digits are what fits a signed 32- and 64-bit number; the Parquet specification draws the same lines.
    if as_integers and precision <= 18:
        return INT32 if precision <= 9 else INT64
    return PlainType.of(Physical.FIXED_LEN_BYTE_ARRAY, decimal_width(precision))


def decimal_width(precision: int) -> int:
    """The fewest bytes whose two's complement holds every number of `precision` digits."""
    most: int = 10**precision - 1
    return most.bit_length() // 8 + 1
