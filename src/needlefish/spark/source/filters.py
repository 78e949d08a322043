"""Spark's filters as predicates of ours. What would not mean the same is left to Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import datasource as sd

from needlefish.errors import InvalidError
from needlefish.model.schema import Field
from needlefish.model.types import is_nested
from needlefish.table.predicate import And, Constant, IsNull, Like, Or, Predicate
from needlefish.table.predicate.literal import compare, one_of
from needlefish.table.predicate.tree import Operator, negate

_SIGNS: dict[type[sd.Filter], Operator] = {
    sd.EqualTo: "=",
    sd.GreaterThan: ">",
    sd.GreaterThanOrEqual: ">=",
    sd.LessThan: "<",
    sd.LessThanOrEqual: "<=",
}
_PATTERNS: dict[type[sd.Filter], str] = {sd.StringStartsWith: "{}%", sd.StringEndsWith: "%{}", sd.StringContains: "%{}%"}
# What a pattern gives a meaning of its own.
_SPECIAL = frozenset("%_\\")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A predicate that holds for every row the filter keeps; if `exact`, for no other."""

    predicate: Predicate
    exact: bool = True


def pushed(found: sd.Filter, fields: Mapping[str, Field]) -> Pushed | None:
    """The filter as a predicate on `fields`, by Spark's names for them; None if there is nothing to say."""
    if isinstance(found, sd.Not):
        return _negated(pushed(found.child, fields))
    field = _field(found, fields)
    try:
        return None if field is None else _pushed(found, field)
    except InvalidError:
        # A value that is not of the column's type: Spark knows what it means by that.
        return None


def _negated(inner: Pushed | None) -> Pushed | None:
    """Rows that an inexact predicate keeps beside the right ones would be missed when it is turned round."""
    return Pushed(predicate=negate(inner.predicate)) if inner is not None and inner.exact else None


def _field(found: sd.Filter, fields: Mapping[str, Field]) -> Field | None:
    """Parts of structs have longer paths; of nested columns nothing is known."""
    path: tuple[str, ...] = getattr(found, "attribute", ())
    field = fields.get(path[0]) if len(path) == 1 else None
    return None if field is None or is_nested(field.arrow_type) else field


def _pushed(found: sd.Filter, field: Field) -> Pushed | None:
    match found:
        case sd.IsNull():
            return Pushed(predicate=IsNull(field=field))
        case sd.IsNotNull():
            return Pushed(predicate=IsNull(field=field, negated=True))
        case sd.EqualNullSafe(value=value):
            return Pushed(predicate=_equal_or_both_null(field, value))
        case sd.In(value=values):
            return Pushed(predicate=_listed(field, values))
        case sd.StringStartsWith(value=text) | sd.StringEndsWith(value=text) | sd.StringContains(value=text):
            return _like(field, text, found)
    sign = _SIGNS.get(type(found))
    return None if sign is None else Pushed(predicate=compare(field, sign, found.value))  # type: ignore[attr-defined]


def _equal_or_both_null(field: Field, value: object) -> Predicate:
    """Never null itself, so that its negation keeps the nulls."""
    if value is None:
        return IsNull(field=field)
    return And(parts=(IsNull(field=field, negated=True), compare(field, "=", value)))


def _listed(field: Field, values: Sequence[object]) -> Predicate:
    """NaN is compared rather than listed, since it has many bit patterns. A null in the list turns false into null."""
    known = [value for value in values if value is not None]
    numbers = [value for value in known if value == value]
    parts: list[Predicate] = [one_of(field, numbers)]
    parts += [compare(field, "=", float("nan"))] if len(numbers) < len(known) else []
    parts += [Constant(value=None)] if len(known) < len(values) else []
    return parts[0] if len(parts) == 1 else Or(parts=tuple(parts))


def _like(field: Field, text: str, found: sd.Filter) -> Pushed | None:
    if field.type != "string":
        return None
    if not _SPECIAL.intersection(text):
        return Pushed(predicate=Like(field=field, pattern=_PATTERNS[type(found)].format(text)))
    # What begins with a text is not below it; the rest is Spark's to say.
    return Pushed(predicate=compare(field, ">=", text), exact=False) if isinstance(found, sd.StringStartsWith) else None
