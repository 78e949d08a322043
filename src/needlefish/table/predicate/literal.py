"""Comparisons as SQL writes them, made into comparisons with a value of the column's own type.

`small_int < 300` or `price = 1.005` have a clear meaning that no value of the column's type can carry; they become
the nearest bound that has the same rows, or a constant.
"""

import math
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal

import numpy as np
import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.model.schema import Field
from needlefish.model.types import is_nested
from needlefish.table.predicate.tree import NEVER, Compare, OneOf, Operator, Or, Predicate
from needlefish.table.values import coerce_value

# Shifting the point never rounds, however many digits somebody wrote.
_EXACT = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
# Beyond what any type holds: 38 digits, and 20 for the longest integer.
_BEYOND = Decimal(10) ** 40


def compare(field: Field, operator: Operator, value: object) -> Predicate:
    """`field operator value`; a null value makes it never true."""
    _check_comparable(field)
    if value is None:
        return NEVER
    kind = field.arrow_type
    if (
        isinstance(value, int | float | Decimal)
        and not isinstance(value, bool)
        and (pa.types.is_integer(kind) or pa.types.is_decimal(kind))
    ):
        return _compare_exact(field, operator, value)
    if pa.types.is_floating(kind):
        return Compare(field=field, operator=operator, value=coerce_value(value, pa.float64(), f"where {field.name}"))
    return Compare(field=field, operator=operator, value=coerce_value(value, kind, f"where {field.name}"))


def one_of(field: Field, values: list[object]) -> Predicate:
    """`field in (values)`. Negated, a null among the values makes it never true, as in SQL."""
    _check_comparable(field)
    found = [compare(field, "=", value) for value in values if value is not None]
    # A value that the column cannot hold equals nothing and drops out.
    listed = OneOf(field=field, values=tuple(part.value for part in found if isinstance(part, Compare)))
    return listed if len(found) == len(values) else Or(parts=(listed, NEVER))


def _check_comparable(field: Field) -> None:
    if is_nested(field.arrow_type):
        raise InvalidError(f"where compares column {field.name!r} of type {field.type}; nested columns can only be tested with IS NULL")


def _compare_exact(field: Field, operator: Operator, value: int | float | Decimal) -> Predicate:
    """Whole numbers and decimals, in units of the column's last digit."""
    number = Decimal(value)
    if not number.is_finite():
        raise InvalidError(
            f"where {field.name} is compared with {value!r}, but {field.type} holds finite numbers only; drop the comparison"
        )
    scale = field.arrow_type.scale if pa.types.is_decimal(field.arrow_type) else 0
    units = max(min(number, _BEYOND), -_BEYOND).scaleb(scale, _EXACT)
    below, above = math.floor(units), math.ceil(units)
    if operator in ("=", "!="):
        return _equal(field, operator, below if below == above else None, scale)
    bounds: dict[str, tuple[Operator, int]] = {"<": ("<=", above - 1), "<=": ("<=", below), ">": (">=", below + 1), ">=": (">=", above)}
    return _bounded(field, *bounds[operator], scale)


def _range_of(field: Field) -> tuple[int, int]:
    """The least and greatest value of the type, in its units."""
    kind = field.arrow_type
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return -most, most
    limits = np.iinfo(kind.to_pandas_dtype())
    return int(limits.min), int(limits.max)


def _equal(field: Field, operator: Operator, units: int | None, scale: int) -> Predicate:
    least, most = _range_of(field)
    if units is None or not least <= units <= most:
        return _constant(field, operator == "!=")
    return Compare(field=field, operator=operator, value=_value(field, units, scale))


def _bounded(field: Field, operator: Operator, units: int, scale: int) -> Predicate:
    least, most = _range_of(field)
    if units < least or units > most:
        everything = (units > most) == (operator == "<=")
        return _constant(field, everything)
    return Compare(field=field, operator=operator, value=_value(field, units, scale))


def _constant(field: Field, answer: bool) -> Predicate:
    """The same answer for every value, which negation turns round; null for null."""
    return OneOf(field=field, values=(), negated=answer)


def _value(field: Field, units: int, scale: int) -> object:
    return Decimal(units).scaleb(-scale, _EXACT) if pa.types.is_decimal(field.arrow_type) else units
