"""Columns of files that others wrote: one schema for all of them, and where each file keeps each column."""

from collections.abc import Sequence
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field, Schema, schema_from_arrow
from needlefish.model.types import parse_type, type_text
from needlefish.services.adopt.listing import FoundFile
from needlefish.store import Store
from needlefish.table.chunkset_reader import guarded
from needlefish.table.footer import read_footer
from needlefish.table.parquet_places import column_places

_INT64 = range(-(2**63), 2**63)


def inferred_schema(store: Store, files: Sequence[FoundFile]) -> Schema:
    """The first file's columns, all of them nullable, then those that only its path has, typed by all paths together."""
    first = files[0]
    footer = read_footer(store, first.path, first.size)
    arrow = guarded(first.path, footer.metadata.schema.to_arrow_schema)
    types = column_types(first.path, arrow, footer.metadata)
    fields = [pa.field(name, parse_type(text)) for name, text in types.items()]
    missing = [name for name in first.values if name not in types]
    fields += [pa.field(name, _path_type([file.values.get(name) for file in files])) for name in missing]
    return schema_from_arrow(pa.schema(fields))


def _path_type(texts: Sequence[str | None]) -> pa.DataType:
    """Whole numbers, dates or texts: what all of the values can be read as."""
    present = [text for text in texts if text is not None]
    for kind, reads in ((pa.int64(), _is_integer), (pa.date32(), _is_date)):
        if present and all(reads(text) for text in present):
            return kind
    return pa.string()


def _is_integer(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii() and int(text) in _INT64


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def column_types(path: str, arrow: pa.Schema, metadata: pq.FileMetaData) -> dict[str, str]:
    """Each column's type as the table would write it; `arrow` is the schema under which the file is read."""
    places = column_places(metadata.schema)
    return {field.name: _type_text(path, field, _is_int96(metadata, places.get(field.name))) for field in arrow}


def _is_int96(metadata: pq.FileMetaData, place: int | None) -> bool:
    return place is not None and metadata.schema.column(place).physical_type == "INT96"


def _type_text(path: str, field: pa.Field, int96: bool) -> str:
    if int96:
        # An instant, as Spark and Hive mean it; Parquet itself does not say.
        return "timestamp"
    try:
        return type_text(field.type, field.name)
    except InvalidError as error:
        raise InvalidError(f"{path}: {error}") from error


def path_columns(definition: TableDefinition, file: FoundFile, types: dict[str, str]) -> tuple[int, ...]:
    """Checks the columns of one file against the table's; the field ids of those that its path alone has."""
    schema = definition.schema
    for name in types:
        if name not in schema.names:
            raise InvalidError(
                f"{file.path} has column {name!r}, which the table's schema does not have; its columns are {', '.join(schema.names)}"
            )
    for field in schema.fields:
        if field.name in types and not fits(types[field.name], field.type):
            raise InvalidError(
                f"{file.path}: column {field.name!r} is {types[field.name]}, but the table has {field.type}; give a schema that is wide enough for all files"
            )
    absent = [field for field in schema.fields if field.name not in types]
    for field in absent:
        _check_in_path(definition, file, field)
    return tuple(field.id for field in absent)


def _check_in_path(definition: TableDefinition, file: FoundFile, field: Field) -> None:
    if field.name not in file.values:
        raise InvalidError(
            f"{file.path} lacks column {field.name!r} ({field.type}), which other files have; add it, or leave it out of the schema"
        )
    if not any(column.source == field.id and column.transform == "identity" for column in definition.partition_by):
        raise InvalidError(f"{file.path}: column {field.name!r} is in the path alone; add {field.name!r} to partition_by")


def fits(stored: str, wanted: str) -> bool:
    """Whether every value of a stored type is one of the wanted type."""
    if stored == wanted:
        return True
    have, want = parse_type(stored), parse_type(wanted)
    if pa.types.is_decimal(have) and pa.types.is_decimal(want):
        return bool(have.scale <= want.scale and have.precision - have.scale <= want.precision - want.scale)
    for family in (pa.types.is_signed_integer, pa.types.is_unsigned_integer, pa.types.is_floating):
        if family(have) and family(want):
            return bool(have.bit_width <= want.bit_width)
    return False
