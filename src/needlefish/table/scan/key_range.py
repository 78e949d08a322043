"""Row-key ranges: both ends belong to the range; an end may be open (None) or name just the leading key columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from needlefish.errors import InvalidError
from needlefish.format.key_order import encode_key
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.schema import Field
from needlefish.table.predicate.literal import compare
from needlefish.table.predicate.tree import TRUE, And, Operator, Or, Predicate, both
from needlefish.table.values import coerce_value


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRange:
    """The range in key order, for chunksets, and as a predicate, for granules and rows."""

    low: bytes
    high: bytes | None
    predicate: Predicate

    def may_hold(self, info: ChunksetInfo) -> bool:
        """Whether the chunkset's first and last key leave room for the range."""
        return info.last_key >= self.low and (self.high is None or info.first_key[: len(self.high)] <= self.high)


EVERYTHING = KeyRange(low=b"", high=None, predicate=TRUE)


def parse_key_range(given: object, key: Sequence[Field]) -> KeyRange:
    """`(low, high)`, where each end is a value, a tuple of values for the leading key columns, or None."""
    if given is None:
        return EVERYTHING
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidError(f"key_range is {given!r}; give a pair (low, high), with None for an open end")
    low, high = (_end(end, key) for end in given)
    types = [field.arrow_type for field in key]
    return KeyRange(
        low=encode_key(low, types),
        high=encode_key(high, types) if high else None,
        predicate=both(_beyond(key, low, ">", ">=") if low else TRUE, _beyond(key, high, "<", "<=") if high else TRUE),
    )


def _end(end: object, key: Sequence[Field]) -> tuple[object, ...]:
    if end is None:
        return ()
    values = tuple(end) if isinstance(end, tuple | list) else (end,)
    if not 1 <= len(values) <= len(key):
        raise InvalidError(f"key_range has an end {end!r} of {len(values)} values; the key is {', '.join(field.name for field in key)}")
    return tuple(
        coerce_value(value, field.arrow_type, f"key_range, column {field.name!r},") for value, field in zip(values, key, strict=False)
    )


def _beyond(key: Sequence[Field], values: Sequence[object], strict: Operator, last: Operator) -> Predicate:
    """Tuples compare column by column: beyond in the first, or equal there and beyond in the next."""
    pairs = list(zip(key, values, strict=False))

    def step(inner: Predicate, pair: tuple[Field, object]) -> Predicate:
        field, value = pair
        return Or(parts=(compare(field, strict, value), And(parts=(compare(field, "=", value), inner))))

    return reduce(step, reversed(pairs[:-1]), compare(*_with(pairs[-1], last)))


def _with(pair: tuple[Field, object], operator: Operator) -> tuple[Field, Operator, object]:
    return pair[0], operator, pair[1]
