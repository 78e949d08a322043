"""`partitions={"day": "2026-11-01"}`: partitions chosen by their own values rather than through a predicate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from needlefish.errors import InvalidError
from needlefish.model.chunkset import PartitionPath
from needlefish.table.partition.path import path_of
from needlefish.table.partition.prune import MOST_PINNED
from needlefish.table.partition.route import values_of_path
from needlefish.table.partition.text import text_of
from needlefish.table.partition.transform import Computed
from needlefish.table.values import coerce_value

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The texts that each partition column may have; None where any will do."""

    names: tuple[str, ...]
    allowed: tuple[frozenset[str | None] | None, ...]

    def texts_of(self, path: str) -> Texts | None:
        """The partition's values as text; None if the selection leaves it out."""
        texts = values_of_path(path)
        chosen = all(allowed is None or text in allowed for text, allowed in zip(texts, self.allowed, strict=True))
        return texts if chosen else None

    def paths(self) -> list[PartitionPath] | None:
        """The partitions by name, if the selection fixes every column."""
        fixed = [allowed for allowed in self.allowed if allowed is not None]
        if len(fixed) < len(self.allowed) or prod(len(texts) for texts in fixed) > MOST_PINNED:
            return None
        return [path_of(self.names, texts) for texts in product(*(sorted(texts, key=str) for texts in fixed))]


def parse_partitions(given: Mapping[str, object] | None, columns: Sequence[Computed]) -> Selection:
    """Checks names and values against the table's partition key."""
    wanted = dict(given or {})
    allowed = tuple(_texts(wanted.pop(column.column.name), column) if column.column.name in wanted else None for column in columns)
    names = tuple(column.column.name for column in columns)
    if wanted:
        raise InvalidError(f"partitions names {next(iter(wanted))!r}; the table is partitioned by {', '.join(names) or 'nothing'}")
    return Selection(names=names, allowed=allowed)


def _texts(given: object, column: Computed) -> frozenset[str | None]:
    values = given if isinstance(given, list | tuple | set | frozenset) else [given]
    return frozenset(_text(value, column) for value in values)


def _text(value: object, column: Computed) -> str | None:
    """A text is read as the partition's own spelling, anything else as a value."""
    if value is None:
        return None
    typed = column.parse(value) if isinstance(value, str) else coerce_value(value, column.value_type, f"partitions[{column.column.name!r}]")
    return text_of(typed, column.column)
