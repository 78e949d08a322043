"""The hashes under which one value may have been indexed: a filter rules it out only when it has none of them.

A column that was widened has files of every width it has had, and a float column keeps -0.0 and 0.0 apart although they
are equal.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import product
from numbers import Real

import pyarrow as pa
import pyarrow.types as kinds
import xxhash

from needlefish.errors import InvalidError
from needlefish.filters.hash import plain_bytes, prefixed
from needlefish.filters.plain_type import PlainType


def probe_hashes(value: object, types: Sequence[pa.DataType], *, stored: PlainType | None = None) -> tuple[int, ...]:
    """Every hash of `value` over the types its column has had; a type it does not fit cannot hold it and adds none."""
    return tuple(map(xxhash.xxh64_intdigest, _encodings(value, types, stored)))


def probe_key_hashes(values: Sequence[object], types: Sequence[Sequence[pa.DataType]]) -> tuple[int, ...]:
    """The same for a composite key: `types[i]` are the types that the i-th column has had."""
    if len(values) != len(types) or not values:
        raise InvalidError(f"values {values!r}: the key has {len(types)} columns; give one value for each")
    if len(values) == 1:
        return probe_hashes(values[0], types[0])
    choices = [_encodings(value, options) for value, options in zip(values, types, strict=True)]
    return tuple(xxhash.xxh64_intdigest(prefixed(parts)) for parts in product(*choices))


def _encodings(value: object, types: Sequence[pa.DataType], stored: PlainType | None = None) -> list[bytes]:
    """Distinct encodings; InvalidError when no type of the column can hold the value."""
    found: dict[bytes, None] = {}
    refusals: list[InvalidError] = []
    for kind in types:
        try:
            found.update((plain_bytes(equal, kind, stored=stored), None) for equal in _equals(value, kind))
        except InvalidError as refusal:
            refusals.append(refusal)
    if refusals and not found:
        raise refusals[-1]
    return list(found)


def _equals(value: object, kind: pa.DataType) -> Iterable[object]:
    """`value` and what compares equal to it under another encoding."""
    if isinstance(value, pa.Scalar) and kinds.is_floating(value.type):
        value = value.as_py()
    if not kinds.is_floating(kind) or not isinstance(value, Real):
        return (value,)
    if math.isnan(value):
        # NaN has many bit patterns, so that no single hash speaks for it: a filter must not be asked.
        raise InvalidError("value nan: NaN has many encodings and a filter cannot rule it out; scan for it instead")
    return (0.0, -0.0) if value == 0 else (value,)
