"""Arrow arrays as plain-encoded bytes: one buffer, and where each value begins and ends.

Fixed-width numbers and strings are views of Arrow's own buffers; only types that Parquet stores differently are copied.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from needlefish.filters.plain_numbers import Bytes, bytes_of, encode_numbers, expect
from needlefish.filters.plain_type import BYTE_ARRAY, PlainType, is_variable_binary, plain_type

Offsets = NDArray[np.int32] | NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainValues:
    """`width` bytes per value, or `offsets` into `data` where lengths vary; `valid` is None when nothing is null."""

    data: Bytes
    count: int
    width: int | None = None
    offsets: Offsets | None = None
    valid: NDArray[np.bool_] | None = None

    def bounds(self) -> Offsets:
        """Where values begin and end, one more than there are values."""
        if self.offsets is not None:
            return self.offsets
        assert self.width is not None
        return np.arange(self.count + 1, dtype=np.int64) * self.width

    def parts(self) -> list[bytes]:
        """Each value's bytes, for the paths that take one value at a time."""
        bounds = self.bounds()
        # Only these values' bytes: a slice of a few rows may point into a buffer of gigabytes.
        data, ends = self.data[bounds[0] : bounds[-1]].tobytes(), (bounds - bounds[0]).tolist()
        return [data[start:end] for start, end in pairwise(ends)]


def encode_plain(array: pa.Array, stored: PlainType | None = None) -> PlainValues:
    """The plain encoding of `array`, stored as `stored` or as pyarrow's writer would store it."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    stored = stored or plain_type(array.type)
    if is_variable_binary(array.type):
        return _variable(array, stored)
    if array.null_count == len(array):
        # Arrow may leave out the buffer of values that are all null; kernels must still find bytes to read.
        width = stored.width or 0
        nothing = np.zeros(len(array) * width, np.uint8)
        return PlainValues(data=nothing, count=len(array), width=width, valid=np.zeros(len(array), np.bool_))
    return PlainValues(data=encode_numbers(array, stored), count=len(array), width=stored.width, valid=validity(array))


def validity(array: pa.Array) -> NDArray[np.bool_] | None:
    """True where a value is present; None when all are."""
    if array.null_count == 0:
        return None
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _variable(array: pa.Array, stored: PlainType) -> PlainValues:
    if kinds.is_string_view(array.type) or kinds.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    expect(array, stored, BYTE_ARRAY)
    wide = kinds.is_large_string(array.type) or kinds.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    if offsets is None:
        return PlainValues(data=bytes_of(data), count=0, offsets=np.zeros(1, np.int64))
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    # Buffers that came over a wire may be unaligned; kernels are compiled for aligned offsets.
    return PlainValues(data=bytes_of(data), count=len(array), offsets=np.require(ends, requirements="A"), valid=validity(array))
