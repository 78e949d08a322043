"""What first and last key say about the leading key column: predicates on it prune chunksets as key ranges do."""

from dataclasses import dataclass

from needlefish.format.key_order import encode_value
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.schema import Field
from needlefish.table.predicate.tree import Compare, IsNull, Leaf, Like, OneOf, Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyEvidence:
    """Compares in key order. Encodings end themselves, so that comparing as many bytes as the value has is exact."""

    info: ChunksetInfo
    leading: Field

    def may(self, leaf: Leaf) -> bool:
        if leaf.field.id != self.leading.id:
            return True
        match leaf:
            case Compare(operator=operator, value=value):
                return self._may_compare(operator, value)
            case OneOf(values=values, negated=False):
                return any(self._may_compare("=", value) for value in values)
            case Like(negated=False):
                prefix = leaf.prefix.encode().replace(b"\x00", b"\x00\xff")
                return self.info.first_key[: len(prefix)] <= prefix <= self.info.last_key[: len(prefix)]
            case IsNull(negated=negated):
                return negated
        return True

    def _may_compare(self, operator: Operator, value: object) -> bool:
        other = encode_value(value, self.leading.arrow_type)
        first, last = self.info.first_key[: len(other)], self.info.last_key[: len(other)]
        match operator:
            case "=":
                return first <= other <= last
            case "<":
                return first < other
            case "<=":
                return first <= other
            case ">":
                return last > other
            case ">=":
                return last >= other
        return True
