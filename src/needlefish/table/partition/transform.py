"""Computed columns: one vectorised function each, which routing and predicate mapping both use.

All are pure functions of the source value. Calendar parts of an instant are taken in UTC.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from needlefish.errors import InvalidError
from needlefish.filters.hash import hash_array
from needlefish.model.definition import PartitionColumn, TableDefinition
from needlefish.model.schema import Field
from needlefish.table.partition.text import parse_text, text_of
from needlefish.table.values import coerce_value

_Accepts = Callable[[pa.DataType], bool]


def _is_discrete(kind: pa.DataType) -> bool:
    """Types with one bit pattern for each value: floats have two zeros and many NaNs."""
    return not pa.types.is_nested(kind) and not pa.types.is_floating(kind)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _is_calendar(kind: pa.DataType) -> bool:
    return _is_time(kind) or bool(pa.types.is_date(kind))


# What each transform may be applied to, and how to say so.
_ACCEPTS: dict[str, tuple[_Accepts, str]] = {
    "identity": (_is_discrete, "any type but float, double and nested ones"),
    "get_or_else": (_is_discrete, "any type but float, double and nested ones"),
    "round": (_is_number, "integers, float or double"),
    "time_slice": (_is_time, "timestamps"),
    "year": (_is_calendar, "dates or timestamps"),
    "month": (_is_calendar, "dates or timestamps"),
    "day": (_is_calendar, "dates or timestamps"),
    "hour": (_is_time, "timestamps"),
    "prefix": (pa.types.is_string, "strings"),
    "bucket": (
        lambda kind: _is_discrete(kind) and not pa.types.is_boolean(kind),
        "integers, decimals, strings, binaries, dates or timestamps",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """A partition column together with the field it is computed from."""

    column: PartitionColumn
    source: Field | None

    @property
    def value_type(self) -> pa.DataType:
        fixed = {"constant": pa.string(), "year": pa.int64(), "month": pa.date32(), "day": pa.date32(), "bucket": pa.int64()}
        if self.column.transform in fixed:
            return fixed[self.column.transform]
        assert self.source is not None
        return _widest(self.source.arrow_type) if self.column.transform == "round" else self.source.arrow_type

    @property
    def keeps_order(self) -> bool:
        """Greater source values never have smaller results."""
        return self.column.transform not in ("constant", "bucket")

    @property
    def keeps_value(self) -> bool:
        """The result is the source value itself, wherever that is not null."""
        return self.column.transform in ("identity", "get_or_else")

    def evaluate(self, values: pa.Array) -> pa.Array:
        """The results of an array of source values."""
        if self.column.transform == "constant":
            return pa.array([self.column.argument] * len(values), pa.string())
        result = _EVALUATE[self.column.transform](values, self.column.argument)
        return result.cast(self.value_type)

    def of(self, value: object) -> object:
        """The result of one source value: the same code path as for arrays, so that routing and finding agree."""
        kind = self.source.arrow_type if self.source else pa.null()
        return self.evaluate(pa.array([value], kind))[0].as_py()

    def text_of(self, value: object) -> str | None:
        """The partition text of one source value."""
        return text_of(self.of(value), self.column)

    def parse(self, text: str | None) -> object:
        """The typed result that a partition text stands for."""
        return None if text is None else parse_text(text, self.value_type, self.column)

    def check(self) -> None:
        """Refuses a transform of a type it has no meaning for."""
        if self.source is None:
            return
        accepts, words = _ACCEPTS[self.column.transform]
        if not accepts(self.source.arrow_type):
            raise InvalidError(
                f"partition_by applies {self.column.transform} to column {self.source.name!r} of type {self.source.type}, "
                f"but it takes {words}: choose another column or function"
            )
        if self.column.transform == "get_or_else":
            coerce_value(self.column.argument, self.source.arrow_type, f"partition_by get_or_else({self.source.name}, …)", texts=True)
        if self.column.transform == "round" and pa.types.is_integer(self.source.arrow_type) and "." in str(self.column.argument):
            raise InvalidError(f"partition_by rounds integer column {self.source.name!r} to {self.column.argument}; give a whole step")


def _widest(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(kind):
        return pa.float64()
    return pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()


def computed_columns(definition: TableDefinition) -> tuple[Computed, ...]:
    schema = definition.schema
    return tuple(Computed(column=c, source=None if c.source is None else schema.field_by_id(c.source)) for c in definition.partition_by)


def _get_or_else(values: pa.Array, default: object) -> pa.Array:
    value = coerce_value(default, values.type, "get_or_else", texts=True)
    return pc.fill_null(values, pa.scalar(value, values.type))


def _round(values: pa.Array, step: object) -> pa.Array:
    """Down to a multiple of the step, for negative numbers too."""
    if pa.types.is_floating(values.type):
        size = float(str(step))
        return pc.multiply(pc.floor(pc.divide(values.cast(pa.float64()), size)), size)
    wide = np.uint64 if pa.types.is_unsigned_integer(values.type) else np.int64
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(wide)
    floored = numbers // wide(int(str(step))) * wide(int(str(step)))
    # Below the lowest multiple that 64 bits hold the product wraps; those numbers share the lowest partition.
    floored[floored > numbers] = np.iinfo(wide).min
    return pa.array(floored, mask=_nulls(values))


def _nulls(values: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False))


def _time_slice(values: pa.Array, micros: object) -> pa.Array:
    assert isinstance(micros, int)
    ticks = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return pa.array(ticks // micros * micros, mask=_nulls(values)).cast(values.type)


def _bucket(values: pa.Array, count: object) -> pa.Array:
    """Hashes a width that widening the column later does not change."""
    assert isinstance(count, int)
    if pa.types.is_integer(values.type) and values.type != pa.uint64():
        values = values.cast(pa.int64())
    elif pa.types.is_decimal(values.type):
        values = values.cast(pa.decimal128(38, values.type.scale))
    buckets = (hash_array(values).hashes % np.uint64(count)).astype(np.int64)
    return pa.array(buckets, mask=_nulls(values))


_EVALUATE: dict[str, Callable[[pa.Array, object], pa.Array]] = {
    "identity": lambda values, _: values,
    "get_or_else": _get_or_else,
    "round": _round,
    "time_slice": _time_slice,
    "year": lambda values, _: pc.year(values),
    "month": lambda values, _: pc.floor_temporal(values, unit="month").cast(pa.date32()),
    "day": lambda values, _: pc.floor_temporal(values, unit="day").cast(pa.date32()),
    "hour": lambda values, _: pc.floor_temporal(values, unit="hour"),
    "prefix": lambda values, count: pc.utf8_slice_codeunits(values, 0, count),
    "bucket": _bucket,
}
