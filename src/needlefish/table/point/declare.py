"""`nf.PointIndex`: what a user declares, and the checked definition it becomes."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import get_args

from needlefish.errors import InvalidError
from needlefish.filters.cuckoo import bits_for, buckets_for
from needlefish.filters.cuckoo_hash import BITS
from needlefish.model.definition import Properties, TableDefinition
from needlefish.model.point_index import EXPECTED_KEYS, Granularity, PointIndexDefinition, PointKind
from needlefish.model.schema import Field, Schema
from needlefish.model.types import is_nested

# A name is a folder of the table.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_MOST_KEYS = 2**48


@dataclass(frozen=True, slots=True)
class PointIndex:
    """Finds the granules that may hold a value of a column, or of several columns together.

    `false_reads` is how many granules a find may read in vain, on average, once the table has `expected_keys`; bits follow
    from it. `granularity="file"` is smaller and leaves a find the whole file to look through. `bits` and `buckets` are of
    `kind="cuckoo"` alone and chosen unless given.
    """

    columns: str | Sequence[str]
    _: KW_ONLY
    kind: str = "postings"
    granularity: str = "row_group"
    false_reads: float = 0.1
    expected_keys: int | None = None
    bits: int | None = None
    buckets: int | None = None
    name: str | None = None


def define_index(index: PointIndex, schema: Schema, properties: Properties) -> PointIndexDefinition:
    """The checked definition of one index."""
    if not isinstance(index, PointIndex):
        raise InvalidError(f"indexes has {index!r}; give nf.PointIndex('column')")
    fields = _fields(index, schema)
    kind, granularity = _choice("kind", index.kind, get_args(PointKind)), _choice("granularity", index.granularity, get_args(Granularity))
    _check_numbers(index)
    expected = index.expected_keys or EXPECTED_KEYS
    rows = properties.granule_rows if granularity == "row_group" else properties.chunkset_rows
    if kind == "postings" and (index.bits or index.buckets):
        raise InvalidError("PointIndex has bits or buckets, which are of kind='cuckoo'; postings follow false_reads: leave them out")
    return PointIndexDefinition(
        name=_name(index, fields),
        fields=tuple(field.id for field in fields),
        kind=kind,  # type: ignore[arg-type]
        granularity=granularity,  # type: ignore[arg-type]
        false_reads=float(index.false_reads),
        expected_keys=expected,
        bits=0 if kind == "postings" else index.bits or bits_for(max(1, expected // rows), index.false_reads),
        buckets=0 if kind == "postings" else index.buckets or buckets_for(rows),
    )


def define_indexes(
    given: Sequence[PointIndex] | None, schema: Schema, key: tuple[int, ...], properties: Properties
) -> tuple[PointIndexDefinition, ...]:
    """All indexes of a new table: the row key has one unless the list is empty."""
    if given is None:
        given = []
    elif isinstance(given, PointIndex | str) or not isinstance(given, Sequence):
        raise InvalidError(f"indexes is {given!r}; give a list such as [nf.PointIndex('user_id')]")
    elif not given:
        return ()
    found = [define_index(index, schema, properties) for index in given]
    if all(index.fields != key for index in found):
        names = [schema.field_by_id(field_id).name for field_id in key]
        found.insert(0, define_index(PointIndex(names), schema, properties))
    for index in found:
        if sum(other.name == index.name for other in found) > 1:
            raise InvalidError(f"indexes has the name {index.name!r} twice; give one of them another name=")
    return tuple(found)


def index_named(definition: TableDefinition, name: object) -> PointIndexDefinition:
    """The index of that name."""
    names = [index.name for index in definition.point_indexes]
    if name not in names:
        there = f"the table has {', '.join(names)}" if names else "the table has none"
        raise InvalidError(f"name is {name!r}, and there is no such point index; {there}")
    return definition.point_indexes[names.index(str(name))]


def _fields(index: PointIndex, schema: Schema) -> list[Field]:
    names = [index.columns] if isinstance(index.columns, str) else index.columns
    if not isinstance(names, Sequence) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidError(f"PointIndex has columns {index.columns!r}; give a column's name or a list of names")
    found = [schema.field(name, "PointIndex") for name in names]
    for field in found:
        if is_nested(field.arrow_type) or field.type == "boolean":
            raise InvalidError(
                f"PointIndex names column {field.name!r} of type {field.type}; such values cannot be indexed: choose another"
            )
    if len({field.id for field in found}) < len(found):
        raise InvalidError(f"PointIndex names a column twice: {', '.join(names)}; name each once")
    return found


def _choice(argument: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise InvalidError(f"PointIndex has {argument} {value!r}; choose one of {', '.join(choices)}")
    return value


def _check_numbers(index: PointIndex) -> None:
    reads = index.false_reads
    if isinstance(reads, bool) or not isinstance(reads, int | float) or not 1e-6 <= reads <= 1e6:
        raise InvalidError(f"PointIndex has false_reads {reads!r}; give a number of granules a find, from 0.000001 to 1000000, such as 0.1")
    for argument, most in (("expected_keys", _MOST_KEYS), ("buckets", 2**31)):
        value = getattr(index, argument)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
            raise InvalidError(f"PointIndex has {argument} {value!r}; give a whole number from 1 to {most}, or leave it out")
    if index.bits is not None and index.bits not in BITS:
        raise InvalidError(f"PointIndex has bits {index.bits!r}; choose one of {', '.join(map(str, BITS))}, or leave it out")


def _name(index: PointIndex, fields: Sequence[Field]) -> str:
    if index.name is not None:
        if not isinstance(index.name, str) or not _NAME.fullmatch(index.name):
            raise InvalidError(
                f"PointIndex has name {index.name!r}; give up to 100 letters, digits, '_', '-' or '.', not beginning with a dot"
            )
        return index.name
    readable = "-".join(field.name for field in fields)
    return readable if _NAME.fullmatch(readable) else "-".join(["fields", *(str(field.id) for field in fields)])
