"""Predicates mapped through partition columns, both ways.

Forward: `ts = x` pins `day(ts)` to one value, so that the partition is looked up. Backward: what a partition's values
say about its rows, so that partitions are ruled out while the file list is read.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from needlefish.model.chunkset import PartitionPath
from needlefish.table.partition.path import path_of
from needlefish.table.partition.transform import Computed
from needlefish.table.predicate.tree import And, Compare, Constant, IsNull, Leaf, Like, OneOf, Or, Predicate

# Above this, looking up partitions one by one costs more requests than reading the whole file list.
MOST_PINNED = 1_000

# What a column's result must be for the leaf to hold on its source, when the function merely keeps order.
_KEEPS_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<": operator.le,
    "<=": operator.le,
    ">": operator.ge,
    ">=": operator.ge,
}
_KEEPS_VALUE: dict[str, Callable[[Any, Any], bool]] = _KEEPS_ORDER | {"<": operator.lt, ">": operator.gt, "!=": operator.ne}


def pinned_paths(predicate: Predicate, columns: Sequence[Computed]) -> list[PartitionPath] | None:
    """The only partitions that can hold matching rows, if the predicate pins every partition column to a few values."""
    texts = [_pinned(predicate, column) for column in columns]
    known = [sorted(found, key=str) for found in texts if found is not None]
    if not columns or len(known) < len(columns) or prod(len(found) for found in known) > MOST_PINNED:
        return None
    names = [column.column.name for column in columns]
    return [path_of(names, combination) for combination in product(*known)]


def _pinned(predicate: Predicate, column: Computed) -> set[str | None] | None:
    """The results the column can have in matching rows, as texts, since NaN is not equal to itself; None if there is no telling."""
    if column.column.transform == "constant":
        return {column.text_of(None)}
    match predicate:
        case Constant(value=value):
            return None if value else set()
        case And(parts=parts):
            found = [pinned for part in parts if (pinned := _pinned(part, column)) is not None]
            return set.intersection(*found) if found else None
        case Or(parts=parts):
            each = [_pinned(part, column) for part in parts]
            return None if None in each else set().union(*(pinned for pinned in each if pinned is not None))
        case leaf:
            return _pinned_by(leaf, column)


def _pinned_by(leaf: Leaf, column: Computed) -> set[str | None] | None:
    if column.source is None or leaf.field.id != column.source.id:
        return None
    match leaf:
        case Compare(operator="=", value=value):
            return {column.text_of(value)}
        case OneOf(values=values, negated=False) if len(values) <= MOST_PINNED:
            return {column.text_of(value) for value in values}
        case IsNull(negated=False):
            return {column.text_of(None)}
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEvidence:
    """What the values of one partition say about its rows."""

    columns: Sequence[Computed]
    values: Sequence[object]

    def may(self, leaf: Leaf) -> bool:
        pairs = zip(self.columns, self.values, strict=True)
        return all(_may(leaf, column, value) for column, value in pairs if column.source is not None and column.source.id == leaf.field.id)


def _may(leaf: Leaf, column: Computed, value: object) -> bool:
    if isinstance(leaf, IsNull):
        return _may_be_null(leaf, column, value)
    if value is None:
        # Only rows without a source value are here, and no comparison is true for them.
        return False
    match leaf:
        case Compare(operator=sign, value=other):
            return _may_compare(sign, column, value, other)
        case OneOf(values=values, negated=negated):
            return _may_be_one_of(values, negated, column, value)
        case Like():
            return _may_be_like(leaf, column, value)
    raise AssertionError(f"{leaf} is no leaf")


def _may_be_one_of(values: tuple[object, ...], negated: bool, column: Computed, value: object) -> bool:
    if negated:
        return not (column.keeps_value and value in values)
    # NaN is equal to nothing that a set could hold.
    return value != value or value in _results(column, values)


def _may_be_null(leaf: IsNull, column: Computed, value: object) -> bool:
    if leaf.negated:
        return value is not None
    return value == column.of(None)


def _may_compare(sign: str, column: Computed, value: object, other: object) -> bool:
    if column.keeps_value:
        return _KEEPS_VALUE[sign](value, other)
    if sign == "!=" or (sign != "=" and not column.keeps_order):
        return True
    if value != value or other != other:  # NaN is in no order that Python's operators know
        return True
    (result,) = _results(column, (other,))
    return _KEEPS_ORDER[sign](value, result)


@lru_cache(maxsize=256)
def _results(column: Computed, values: tuple[object, ...]) -> frozenset[object]:
    """What the column makes of these values: asked for again with every partition, and it takes 50 us for each value."""
    return frozenset(column.of(value) for value in values)


def _may_be_like(leaf: Like, column: Computed, value: object) -> bool:
    if leaf.negated or not isinstance(value, str):
        return True
    if column.keeps_value:
        return re.fullmatch(_regex(leaf.pattern), value, re.DOTALL) is not None
    if column.column.transform != "prefix":
        return True
    # Either text may be the shorter one.
    return value.startswith(leaf.prefix) or leaf.prefix.startswith(value)


def _regex(pattern: str) -> str:
    return "".join({"%": ".*", "_": "."}.get(sign, re.escape(sign)) for sign in pattern)
