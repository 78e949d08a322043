"""Column statistics as evidence: chunksets whose least and greatest values leave no room for a match are not opened.

What is missing or damaged rules nothing out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from needlefish.format.key_order import encode_value
from needlefish.format.metadata_key import file_key, hash64_part
from needlefish.format.run import KEY
from needlefish.index import newest
from needlefish.model.chunkset import ChunksetInfo, PartitionPath
from needlefish.model.schema import Field
from needlefish.model.types import is_nested
from needlefish.table.find.tolerant import TolerantReader
from needlefish.table.predicate import Compare, IsNull, Like, OneOf, Predicate, fields_of, may_match
from needlefish.table.predicate.tree import Leaf, Operator
from needlefish.table.snapshot import Snapshot

Complain = Callable[[str], None]

_PART_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """One column of one chunkset, in key order. Bounds may be rounded outwards; absent ones mean that nothing is known."""

    lowest: bytes | None
    highest: bytes | None
    values: int
    nulls: int
    has_nan: bool

    def may(self, leaf: Leaf) -> bool:
        if isinstance(leaf, IsNull):
            return self.values > self.nulls if leaf.negated else self.nulls > 0
        if self.values == self.nulls:
            return False
        match leaf:
            case Compare(operator=operator, value=value):
                return self._may_compare(operator, value, leaf.field)
            case OneOf(values=values, negated=False):
                return any(self._may_compare("=", value, leaf.field) for value in values)
            case Like(negated=False):
                return self._may_begin_with(leaf.prefix)
        return True

    def _may_compare(self, operator: Operator, value: object, field: Field) -> bool:
        # NaN is outside the bounds, and the greatest.
        if self.lowest is None or self.highest is None or value != value or (self.has_nan and operator in (">", ">=", "!=")):
            return True
        other = encode_value(value, field.arrow_type)
        match operator:
            case "=":
                return self.lowest <= other <= self.highest
            case "<":
                return self.lowest < other
            case "<=":
                return self.lowest <= other
            case ">":
                return self.highest > other
            case ">=":
                return self.highest >= other
        return not self.lowest == other == self.highest

    def _may_begin_with(self, prefix: str) -> bool:
        if self.lowest is None or self.highest is None:
            return True
        begun = prefix.encode().replace(b"\x00", b"\x00\xff")
        return self.lowest[: len(begun)] <= begun <= self.highest


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsEvidence:
    """What is known of the columns of one chunkset, by field id."""

    known: Mapping[int, Bounds | None]

    def may(self, leaf: Leaf) -> bool:
        bounds = self.known.get(leaf.field.id)
        return bounds is None or bounds.may(leaf)


def pass_statistics(
    snapshot: Snapshot, predicate: Predicate, infos: Iterable[ChunksetInfo], partitions: Iterable[PartitionPath] | None, complain: Complain
) -> Iterator[ChunksetInfo]:
    """Those that may match, of chunksets in the order of keys. Statistics are read beside them, a block at a time."""
    columns = {field.id: _Column(snapshot, field, partitions, complain) for field in _fields(snapshot, predicate)}
    for info in infos:
        key = file_key(info.partition, info.file_name)
        known = {field_id: column.of(key) for field_id, column in columns.items()}
        if not columns or may_match(predicate, StatisticsEvidence(known=known)):
            yield info


def _fields(snapshot: Snapshot, predicate: Predicate) -> list[Field]:
    """The columns worth reading statistics of: first and last key say the same of the leading key column."""
    leading = snapshot.state.definition.key[0]
    found = dict.fromkeys(fields_of(predicate))
    return [field for field in found if field.id != leading and not is_nested(field.arrow_type)]


class _Column:
    """The statistics of one column; chunksets ask in the order of keys, which is the order of the records too."""

    def __init__(self, snapshot: Snapshot, field: Field, partitions: Iterable[PartitionPath] | None, complain: Complain) -> None:
        readers = [TolerantReader(reader, complain) for reader in snapshot.runs("column_stats")]
        column = hash64_part(str(field.id))
        prefixes = [column] if partitions is None else [column + hash64_part(path) for path in partitions]
        self._records = _decoded(newest.with_prefixes(snapshot.store, readers, prefixes))
        self._upcoming = next(self._records, None)

    def of(self, key: str) -> Bounds | None:
        while self._upcoming is not None and self._upcoming[0] < key:
            self._upcoming = next(self._records, None)
        return self._upcoming[1] if self._upcoming is not None and self._upcoming[0] == key else None


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, Bounds]]:
    names = ("min", "max", "value_count", "null_count", "has_nan")
    for batch in batches:
        for key, lowest, highest, values, nulls, has_nan in zip(*(batch[name].to_pylist() for name in (KEY, *names)), strict=True):
            yield key[_PART_LENGTH:], Bounds(lowest=lowest, highest=highest, values=values, nulls=nulls, has_nan=has_nan)
