"""What is looked for: values of one column, or of several together, in key order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from needlefish.errors import InvalidError
from needlefish.filters.hash import HashedValues, hash_key
from needlefish.format.key_order import encode_key
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.model.types import is_nested
from needlefish.table.find.fitting import fitting
from needlefish.table.values import coerce_value

# A find holds its values in memory; more than this is a join, which Spark does better.
MOST_VALUES = 100_000

Types = tuple[pa.DataType, ...]


class EncodedValues:
    """Values as bytes in key order, each encoded when it is first looked at: a binary search looks at few of many."""

    __slots__ = ("_arrays", "_known", "_types")

    def __init__(self, arrays: tuple[pa.Array, ...]) -> None:
        self._arrays = arrays
        self._types = [array.type for array in arrays]
        self._known: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._arrays[0])

    def __getitem__(self, at: int) -> bytes:
        found = self._known.get(at)
        if found is None:
            found = self._known[at] = encode_key([array[at].as_py() for array in self._arrays], self._types)
        return found


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Tuples of values for `fields`, sorted by their encoding; `arrays` has them column by column."""

    fields: tuple[Field, ...]
    arrays: tuple[pa.Array, ...]
    is_key: bool
    # What these values were taken from, and their places there: hashes are computed once for all the parts.
    origin: "tuple[Wanted, slice | NDArray[np.intp]] | None" = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.arrays[0])

    @cached_property
    def encoded(self) -> EncodedValues:
        return EncodedValues(self.arrays)

    @cached_property
    def values(self) -> tuple[tuple[object, ...], ...]:
        """The values row by row: for few of them."""
        return tuple(zip(*(array.to_pylist() for array in self.arrays), strict=True))

    def part(self, first: int, end: int) -> "Wanted":
        """A stretch of the values, which is a stretch of key order."""
        if (first, end) == (0, len(self)):
            return self
        arrays = tuple(array.slice(first, end - first) for array in self.arrays)
        return Wanted(fields=self.fields, arrays=arrays, is_key=self.is_key, origin=(self, slice(first, end)))

    def chosen(self, places: NDArray[np.intp]) -> "Wanted":
        """Some of the values, by their places in ascending order."""
        arrays = tuple(array.take(pa.array(places)) for array in self.arrays)
        return Wanted(fields=self.fields, arrays=arrays, is_key=self.is_key, origin=(self, places))

    @cached_property
    def places(self) -> NDArray[np.intp]:
        """Where the values are among those that they were first taken from."""
        return np.arange(len(self)) if self.origin is None else self.origin[0].places[self.origin[1]]

    def hashed(self, types: Types) -> HashedValues:
        """The values' hashes under the types of a file; null where a value does not fit them and so cannot be there."""
        if self.origin is not None:
            found = self.origin[0].hashed(types)
            places = self.origin[1]
            return HashedValues(hashes=found.hashes[places], valid=None if found.valid is None else found.valid[places])
        if types not in self._hashed:
            self._hashed[types] = hash_key([fitting(array, kind) for array, kind in zip(self.arrays, types, strict=True)])
        return self._hashed[types]

    @cached_property
    def _hashed(self) -> dict[Types, HashedValues]:
        return {}


def wanted_arrays(definition: TableDefinition, arrays: Sequence[pa.Array]) -> Wanted:
    """Whole row keys in any number, as arrays of the table's types that are sorted by key already."""
    return Wanted(fields=definition.key_fields, arrays=tuple(map(one_zero, arrays)), is_key=True)


def one_zero(values: pa.Array) -> pa.Array:
    """-0.0 equals 0.0, which kernels of Arrow do not all know."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def wanted_values(definition: TableDefinition, conditions: Mapping[str, object]) -> Wanted:
    """`column=value`, `column=[values]`, or one value for each of several columns, which must all hold."""
    if not conditions:
        raise InvalidError("find needs something to look for; give a column and a value, such as find(request_id='4bf9')")
    fields = tuple(definition.schema.field(name, "find") for name in conditions)
    listed = [name for name, value in conditions.items() if isinstance(value, list | tuple | set | frozenset | pa.Array | pa.ChunkedArray)]
    if len(fields) > 1 and listed:
        raise InvalidError(f"find has a list for {listed[0]!r} beside other columns; look for whole keys with find([(…, …), …]) instead")
    if len(fields) == 1:
        only = next(iter(conditions.values()))
        return _wanted(definition, fields, [(value,) for value in (_listed(only) if listed else [only])])
    return _wanted(definition, fields, [tuple(conditions.values())])


def wanted_keys(definition: TableDefinition, keys: Sequence[object]) -> Wanted:
    """Whole row keys: tuples in key order, or plain values where the key is one column."""
    rows = [key if isinstance(key, tuple | list) else (key,) for key in keys]
    fields = definition.key_fields
    for row in rows:
        if len(row) != len(fields):
            raise InvalidError(
                f"find has the key {tuple(row)!r}; the key is {', '.join(field.name for field in fields)}: give a value for each"
            )
    return _wanted(definition, fields, [tuple(row) for row in rows])


def _listed(given: object) -> list[object]:
    return given.to_pylist() if isinstance(given, pa.Array | pa.ChunkedArray) else list(given)  # type: ignore[call-overload,no-any-return]


def _wanted(definition: TableDefinition, fields: tuple[Field, ...], rows: Sequence[tuple[object, ...]]) -> Wanted:
    if len(rows) > MOST_VALUES:
        raise InvalidError(f"find has {len(rows)} values; give at most {MOST_VALUES} at once, or use table.tag or a Spark join")
    key_order = definition.key_fields
    if {field.id for field in fields} == set(definition.key):
        rows = [tuple(row[fields.index(field)] for field in key_order) for row in rows]
        fields = key_order
    types = [_checked_type(field) for field in fields]
    typed = [tuple(_typed(value, field) for value, field in zip(row, fields, strict=True)) for row in rows]
    distinct = typed if len(typed) == 1 else list(dict(sorted({encode_key(row, types): row for row in typed}.items())).values())
    arrays = tuple(one_zero(pa.array([row[at] for row in distinct], kind)) for at, kind in enumerate(types))
    return Wanted(fields=fields, arrays=arrays, is_key=fields == key_order)


def _checked_type(field: Field) -> pa.DataType:
    if is_nested(field.arrow_type):
        raise InvalidError(f"find names column {field.name!r} of type {field.type}; nested values cannot be looked for")
    return field.arrow_type


def _typed(value: object, field: Field) -> object:
    if value is None:
        raise InvalidError(f"find({field.name}=None): nulls are in no index; use scan(where='{field.name} is null')")
    return coerce_value(value, field.arrow_type, f"find({field.name}=…)")
