"""The one hash: XXH64 (seed 0) of a value's Parquet plain encoding. Normative text: spec/filters.md.

Parquet footers, metadata filters, cuckoo filters and postings all use it. Arrays go through compiled kernels when
there is enough work to pay for them; single values never touch numba.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
import xxhash
from numpy.typing import NDArray

from needlefish.errors import InvalidError
from needlefish.filters import xxh64
from needlefish.filters.compiling import BUDGET
from needlefish.filters.one_value import array_of_one
from needlefish.filters.plain_type import PlainType
from needlefish.filters.plain_values import PlainValues, encode_plain, validity

Hashes = NDArray[np.uint64]
Valid = NDArray[np.bool_] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedValues:
    """One hash per row; 0 where the row is null, which `valid` tells apart from a hash of 0 (None: nothing is null)."""

    hashes: Hashes
    valid: Valid = None

    def __len__(self) -> int:
        return len(self.hashes)

    def present(self) -> Hashes:
        """The hashes of rows that are not null: what goes into an index."""
        return self.hashes if self.valid is None else self.hashes[self.valid]


def hash_array(array: pa.Array | pa.ChunkedArray, *, stored: PlainType | None = None) -> HashedValues:
    """The hash of every value; `stored` is for files whose writer chose another physical type than pyarrow would."""
    if isinstance(array, pa.ChunkedArray):
        return _joined([hash_array(chunk, stored=stored) for chunk in array.chunks])
    if isinstance(array, pa.ExtensionArray):
        return hash_array(array.storage, stored=stored)
    if kinds.is_dictionary(array.type):
        return _hash_dictionary(array, stored)
    return _masked(encode_plain(array, stored))


def hash_key(arrays: Sequence[pa.Array | pa.ChunkedArray]) -> HashedValues:
    """The hash of a key of several columns, row by row; a row with a null part is null.

    One column hashes as itself. Several hash the concatenation of every part's length (u32, little-endian) and bytes.
    """
    if len(arrays) == 1:
        return hash_array(arrays[0])
    parts = [encode_plain(_combined(array)) for array in arrays]
    if len({part.count for part in parts}) != 1:
        raise InvalidError(f"arrays have {[part.count for part in parts]} rows: pass the columns of one key, all of one length")
    valid = reduce(_both, (part.valid for part in parts))
    return _with_nulls(_hash_rows(parts), valid)


def hash_value(value: object, kind: pa.DataType, *, stored: PlainType | None = None) -> int:
    """The hash of one value of a column of type `kind`."""
    return xxhash.xxh64_intdigest(plain_bytes(value, kind, stored=stored))


def hash_key_value(values: Sequence[object], kinds_of_parts: Sequence[pa.DataType]) -> int:
    """The hash of one key: `hash_key` for a single row."""
    if len(values) != len(kinds_of_parts) or not values:
        raise InvalidError(f"values {values!r}: the key has {len(kinds_of_parts)} columns; give one value for each")
    parts = [plain_bytes(value, kind) for value, kind in zip(values, kinds_of_parts, strict=True)]
    return xxhash.xxh64_intdigest(parts[0] if len(parts) == 1 else prefixed(parts))


def plain_bytes(value: object, kind: pa.DataType, *, stored: PlainType | None = None) -> bytes:
    """The bytes that are hashed for one value."""
    if stored is None and isinstance(value, str) and kinds.is_string(kind):
        # What most finds look for: arrays for one text would take most of their hash's time.
        return value.encode()
    return encode_plain(array_of_one(value, kind), stored).parts()[0]


def prefixed(parts: Sequence[bytes]) -> bytes:
    """The concatenation that a composite key hashes."""
    return b"".join(len(part).to_bytes(4, "little") + part for part in parts)


def _masked(values: PlainValues) -> HashedValues:
    return _with_nulls(_hash_plain(values), values.valid)


def _with_nulls(hashes: Hashes, valid: Valid) -> HashedValues:
    if valid is not None:
        hashes[~valid] = 0
    return HashedValues(hashes=hashes, valid=valid)


def _hash_plain(values: PlainValues) -> Hashes:
    if not BUDGET.pays(xxh64.cost_ns(values)):
        return xxh64.hash_plain(values)
    from needlefish.filters import xxh64_kernels as compiled

    out = np.empty(values.count, np.uint64)
    if values.offsets is not None:
        compiled.hash_variable(values.data, values.offsets, out)
    elif values.width in (4, 8):
        (compiled.hash_4 if values.width == 4 else compiled.hash_8)(values.data, out)
    else:
        compiled.hash_fixed(values.data, np.uint64(values.width or 0), out)
    return out


def _hash_dictionary(array: pa.DictionaryArray, stored: PlainType | None) -> HashedValues:
    """Each distinct value is hashed once; rows look theirs up."""
    if len(array.dictionary) > len(array):
        # A short slice of a column with a large dictionary: its rows are fewer than the words.
        return hash_array(array.dictionary_decode(), stored=stored)
    words = hash_array(array.dictionary, stored=stored)
    if len(words) == 0:
        return HashedValues(hashes=np.zeros(len(array), np.uint64), valid=validity(array.indices))
    at = np.asarray(array.indices.fill_null(0).to_numpy(zero_copy_only=False))
    found = None if words.valid is None else words.valid[at]
    return _with_nulls(words.hashes[at], _both(validity(array.indices), found))


def _hash_rows(parts: Sequence[PlainValues]) -> Hashes:
    if not BUDGET.pays(xxh64.rows_cost_ns(parts)):
        return xxh64.hash_parts(map(prefixed, zip(*(part.parts() for part in parts), strict=True)))
    from needlefish.filters import xxh64_kernels as compiled

    bounds = [part.bounds() for part in parts]
    starts = np.zeros(parts[0].count + 1, np.int64)
    np.cumsum(sum(np.diff(bound).astype(np.int64) + 4 for bound in bounds), out=starts[1:])
    rows, cursors = np.empty(starts[-1], np.uint8), starts[:-1].copy()
    for part, bound in zip(parts, bounds, strict=True):
        compiled.append_parts(rows, cursors, part.data, bound)
    out = np.empty(parts[0].count, np.uint64)
    compiled.hash_variable(rows, starts, out)
    return out


def _combined(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _both(one: Valid, other: Valid) -> Valid:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _joined(chunks: Sequence[HashedValues]) -> HashedValues:
    if not chunks:
        return HashedValues(hashes=np.zeros(0, np.uint64))
    hashes = np.concatenate([chunk.hashes for chunk in chunks])
    if all(chunk.valid is None for chunk in chunks):
        return HashedValues(hashes=hashes)
    masks = [np.ones(len(chunk), np.bool_) if chunk.valid is None else chunk.valid for chunk in chunks]
    return HashedValues(hashes=hashes, valid=np.concatenate(masks))
