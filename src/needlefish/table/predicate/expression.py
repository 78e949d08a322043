"""From the predicate tree to a pyarrow expression, with SQL's and Spark's view of NaN: the greatest, equal to itself."""

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.model.schema import Field
from needlefish.table.predicate.tree import And, Compare, Constant, IsNull, Like, OneOf, Or, Predicate

_APPLY: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def to_expression(predicate: Predicate) -> pc.Expression:
    """Exact: rows for which it is not true are dropped."""
    match predicate:
        case Constant(value=value):
            return pc.scalar(pa.scalar(value, pa.bool_()))
        case And(parts=parts):
            return reduce(operator.and_, (to_expression(part) for part in parts))
        case Or(parts=parts):
            return reduce(operator.or_, (to_expression(part) for part in parts))
        case IsNull(field=field, negated=negated):
            return pc.field(field.name).is_valid() if negated else pc.field(field.name).is_null()
        case Like(field=field, pattern=pattern, negated=negated):
            found = pc.match_like(pc.field(field.name), pattern)
            return ~found if negated else found
        case OneOf(field=field, values=values, negated=negated):
            return _one_of(field, values, negated)
        case Compare(field=field):
            return _floating(predicate) if pa.types.is_floating(field.arrow_type) else _plain(predicate)


def _plain(leaf: Compare) -> pc.Expression:
    return _APPLY[leaf.operator](pc.field(leaf.field.name), pa.scalar(leaf.value, leaf.field.arrow_type))


def _floating(leaf: Compare) -> pc.Expression:
    """A float column is compared as double, so that `x = 0.1` means the same as in Spark."""
    column = pc.field(leaf.field.name)
    assert isinstance(leaf.value, float)
    if math.isnan(leaf.value):
        return _against_nan(leaf.operator, column)
    found = _APPLY[leaf.operator](column.cast(pa.float64()), pa.scalar(leaf.value, pa.float64()))
    return found | pc.is_nan(column) if leaf.operator in (">", ">=") else found


def _against_nan(sign: str, column: pc.Expression) -> pc.Expression:
    is_nan = pc.is_nan(column)
    known = {"=": is_nan, ">=": is_nan, "<": ~is_nan, "!=": ~is_nan, "<=": is_nan | ~is_nan, ">": is_nan & ~is_nan}
    return known[sign]


def _one_of(field: Field, values: tuple[object, ...], negated: bool) -> pc.Expression:
    """`isin` answers false for null, so that the negated form has to ask for a value too."""
    if pa.types.is_floating(field.arrow_type):
        # `isin` hashes, and the two zeros differ there: a sum with zero makes them one, on both sides.
        column, listed = pc.add(pc.field(field.name).cast(pa.float64()), 0.0), pc.add(pa.array(values, pa.float64()), 0.0)
    else:
        column, listed = pc.field(field.name), pa.array(values, field.arrow_type)
    return ~column.isin(listed) & column.is_valid() if negated else column.isin(listed)
