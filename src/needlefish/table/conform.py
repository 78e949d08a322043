"""Rows as somebody delivers them, made into rows of the table: right columns, right order, right types, no loss."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import RESERVED, Field

# What a column may be widened from without asking; everything else must be cast by whoever knows what is meant.
_WIDENS = {
    "int16": ("int8",),
    "int32": ("int8", "int16"),
    "int64": ("int8", "int16", "int32"),
    "double": ("float",),
    # Spark has no unsigned integers: the signed value is checked against the range, row by row.
    "uint8": ("int8", "int16", "int32", "int64"),
    "uint16": ("uint8", "int8", "int16", "int32", "int64"),
    "uint32": ("uint8", "uint16", "int8", "int16", "int32", "int64"),
    "uint64": ("uint8", "uint16", "uint32", "int8", "int16", "int32", "int64", "decimal(20,0)"),
}


def check_columns(delivered: dict[str, str], definition: TableDefinition) -> None:
    """Compares the columns of a frame (name to type text) with the table's, before any row is touched."""
    schema = definition.schema
    unknown = [name for name in delivered if name not in schema.names]
    if unknown:
        raise InvalidError(
            f"df has column {unknown[0]!r}, which the table does not have; drop it, or rename it to one of {', '.join(schema.names)}"
        )
    for field in schema.fields:
        _check_column(field, delivered.get(field.name), required=field.id in definition.key or not field.nullable)


def check_required(fields: Sequence[Field], delivered: dict[str, str]) -> None:
    """The same for a frame that needs `fields` and may have anything besides."""
    for field in fields:
        _check_column(field, delivered.get(field.name), required=True)


def _check_column(field: Field, delivered: str | None, *, required: bool) -> None:
    if delivered is None:
        if required:
            raise InvalidError(f"df lacks column {field.name!r} ({field.type}), which every row must have; add it")
        return
    if delivered != field.type and not _widens(delivered, field.type):
        raise InvalidError(f"df column {field.name!r} is {delivered}, but the table has {field.type}; cast it first")


def _widens(delivered: str, wanted: str) -> bool:
    if delivered in _WIDENS.get(wanted, ()):
        return True
    if not (delivered.startswith("decimal(") and wanted.startswith("decimal(")):
        return False
    have, want = ([int(part) for part in text[8:-1].split(",")] for text in (delivered, wanted))
    # Decimals may gain digits on either side of the point.
    return have[1] <= want[1] and have[0] - have[1] <= want[0] - want[1]


def conform(rows: pa.RecordBatch, definition: TableDefinition) -> pa.RecordBatch:
    """The same rows under the table's schema; columns that are absent and may be are filled with nulls."""
    return conform_to(definition.schema.fields, rows, definition)


def conform_to(fields: Sequence[Field], rows: pa.RecordBatch, definition: TableDefinition) -> pa.RecordBatch:
    """The same with some of the table's columns."""
    columns = [_column(rows, field, in_key=field.id in definition.key) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema([field.to_arrow() for field in fields]))


def conform_column(rows: pa.RecordBatch, field: Field) -> pa.Array:
    """One column under the table's type."""
    if field.name not in rows.schema.names:
        return pa.nulls(rows.num_rows, field.arrow_type)
    return _cast(rows[field.name], field)


def _column(rows: pa.RecordBatch, field: Field, *, in_key: bool) -> pa.Array:
    values = conform_column(rows, field)
    if values.null_count and (in_key or not field.nullable):
        raise InvalidError(_null_message(rows, values, field, in_key))
    return values


def _cast(values: pa.Array, field: Field) -> pa.Array:
    if values.type != field.arrow_type:
        try:
            values = values.cast(field.arrow_type)
        except pa.ArrowException as error:
            raise InvalidError(f"df column {field.name!r} does not fit {field.type}: {error}") from error
    if pa.types.is_temporal(values.type):
        _check_time(values, field)
    return values


def _check_time(values: pa.Array, field: Field) -> None:
    """Years that calendars of Python and SQL have; nobody could name the partition of another one, or look for it."""
    try:
        pc.min_max(values).as_py()
    except (OverflowError, ValueError) as error:
        numbers = values.cast(pa.int64() if values.type.bit_width == 64 else pa.int32())
        lowest, highest = pc.min_max(numbers).as_py().values()
        far = highest if highest > -lowest else lowest
        raise InvalidError(
            f"df column {field.name!r} has the {field.type} {far} since 1970, which is in no year from 1 to 9999; correct it"
        ) from error


def _null_message(rows: pa.RecordBatch, values: pa.Array, field: Field, in_key: bool) -> str:
    at = pc.index(values.is_null(), True).as_py()
    row = rows.slice(at, 1).to_pylist()[0]
    shown = {name: value for name, value in row.items() if value is not None and not name.startswith(RESERVED)}
    what = "key column" if in_key else "column"
    return f"df has a null in {what} {field.name!r}, in the row {_brief(shown)}; every row needs a value there"


def _brief(row: dict[str, object]) -> str:
    text = str(row)
    return text if len(text) <= 200 else text[:200] + "…"
