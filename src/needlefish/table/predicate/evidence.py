"""What is known of rows that nobody has read: a partition's values, a chunkset's key range, a granule's statistics.

Evidence may only say that no row can match. Whatever it does not know, it must let pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from needlefish.table.predicate.tree import And, Compare, Constant, Leaf, Like, OneOf, Operator, Or, Predicate


class Evidence(Protocol):
    """Anything that can rule a leaf out."""

    def may(self, leaf: Leaf) -> bool:
        """False only if the leaf is true for none of the rows."""
        ...


def may_match(predicate: Predicate, evidence: Evidence) -> bool:
    """False only if no row can satisfy the predicate."""
    match predicate:
        case Constant(value=value):
            return value is True
        case And(parts=parts):
            return all(may_match(part, evidence) for part in parts)
        case Or(parts=parts):
            return any(may_match(part, evidence) for part in parts)
        case leaf:
            return evidence.may(leaf)


@dataclass(frozen=True, slots=True)
class All:
    """Several kinds of evidence at once: each may rule out."""

    parts: tuple[Evidence, ...]

    def may(self, leaf: Leaf) -> bool:
        return all(part.may(leaf) for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The least and greatest value of a column, in any form that compares (`encode` brings a leaf's value into it).

    `unordered` says that values may be there that the bounds do not cover: NaN, which counts as the greatest.
    """

    lowest: Any
    highest: Any
    encode: Callable[[object], Any] = lambda value: value
    unordered: bool = False

    def may(self, leaf: Leaf) -> bool:
        match leaf:
            case Compare(operator=operator, value=value):
                return self._may_compare(operator, value)
            case OneOf(values=values, negated=False):
                return any(self._may_compare("=", value) for value in values)
            case Like(negated=False) if isinstance(self.lowest, str):
                # Texts that begin with the prefix lie between it and the last text that does.
                return bool(self.lowest[: len(leaf.prefix)] <= leaf.prefix <= self.highest)
            case _:
                return True

    def _may_compare(self, operator: Operator, value: object) -> bool:
        if value != value:  # NaN lies beyond the bounds
            return True
        other = self.encode(value)
        match operator:
            case "=":
                return bool(self.lowest <= other <= self.highest)
            case "<":
                return bool(self.lowest < other)
            case "<=":
                return bool(self.lowest <= other)
            case ">":
                return self.unordered or bool(self.highest > other)
            case ">=":
                return self.unordered or bool(self.highest >= other)
            case "!=":
                return self.unordered or not (self.lowest == other == self.highest)
