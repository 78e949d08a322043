"""The predicate tree. Negation is pushed down to the leaves when the tree is made, so no node means "not".

A row is kept if the predicate is true for it; null counts as not true, as in SQL.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from needlefish.model.schema import Field

Operator = Literal["=", "!=", "<", "<=", ">", ">="]

_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """True, false, or null, which is never true and stays null when negated."""

    value: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """A column against a value of its own type."""

    field: Field
    operator: Operator
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """A column against a list without nulls."""

    field: Field
    values: tuple[object, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsNull:
    """Whether a column has a value."""

    field: Field
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """A SQL pattern: `%` stands for any text, `_` for one character."""

    field: Field
    pattern: str
    negated: bool = False

    @property
    def prefix(self) -> str:
        """What every matching text begins with."""
        return self.pattern[: min((self.pattern.find(sign) for sign in "%_" if sign in self.pattern), default=len(self.pattern))]


Leaf = Compare | OneOf | IsNull | Like


@dataclass(frozen=True, slots=True, kw_only=True)
class And:
    parts: tuple["Predicate", ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or:
    parts: tuple["Predicate", ...]


Predicate = Constant | Compare | OneOf | IsNull | Like | And | Or

TRUE = Constant(value=True)
NEVER = Constant(value=None)


def negate(predicate: Predicate) -> Predicate:
    match predicate:
        case Constant(value=value):
            return predicate if value is None else Constant(value=not value)
        case Compare(operator=operator):
            return replace(predicate, operator=_OPPOSITE[operator])
        case And(parts=parts):
            return Or(parts=tuple(negate(part) for part in parts))
        case Or(parts=parts):
            return And(parts=tuple(negate(part) for part in parts))
        case leaf:
            return replace(leaf, negated=not leaf.negated)


def both(left: Predicate, right: Predicate) -> Predicate:
    """`left and right`, without piling up nodes that say nothing."""
    if TRUE in (left, right):
        return right if left == TRUE else left
    return And(parts=(left, right))


def fields_of(predicate: Predicate) -> Iterator[Field]:
    """Every column the predicate looks at."""
    match predicate:
        case Constant():
            return
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from fields_of(part)
        case leaf:
            yield leaf.field
