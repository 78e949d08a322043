"""`table.describe()`: what a table is, for people and for `--json`."""

from dataclasses import asdict, dataclass

from needlefish.model.definition import PartitionColumn
from needlefish.model.log import TableState
from needlefish.model.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDescription:
    """One column."""

    name: str
    type: str
    nullable: bool
    field_id: int
    key_position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A table at one version."""

    uri: str
    table_id: str
    version: int
    timestamp_ms: int
    format: int
    # Visible ones; the files hold `skipped` more, which newer rows replaced or deletes removed.
    rows: int
    skipped: int
    files: int
    bytes: int
    runs: int
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    # Columns besides the key whose values have Bloom filters.
    bloom_columns: tuple[str, ...]
    columns: tuple[ColumnDescription, ...]
    properties: dict[str, object]
    # The last number that each application has delivered.
    batches: dict[str, int]


def describe(uri: str, state: TableState) -> Description:
    definition = state.definition
    return Description(
        uri=uri,
        table_id=definition.table_id,
        version=state.version,
        timestamp_ms=state.timestamp_ms,
        format=state.format,
        rows=state.totals.visible_rows,
        skipped=state.totals.skipped,
        files=state.totals.files,
        bytes=state.totals.bytes,
        runs=len(state.runs),
        key=tuple(field.name for field in definition.key_fields),
        partition_by=tuple(partition_text(column, definition.schema) for column in definition.partition_by),
        bloom_columns=tuple(definition.schema.field_by_id(field_id).name for field_id in definition.bloom_columns),
        columns=tuple(_column(state, position) for position in range(len(definition.schema.fields))),
        properties=asdict(definition.properties),
        batches={batch.application: batch.number for batch in state.batches},
    )


def _column(state: TableState, position: int) -> ColumnDescription:
    definition = state.definition
    field = definition.schema.fields[position]
    place = definition.key.index(field.id) if field.id in definition.key else None
    return ColumnDescription(name=field.name, type=field.type, nullable=field.nullable, field_id=field.id, key_position=place)


def partition_text(column: PartitionColumn, schema: Schema) -> str:
    """The column as `partition_by` would take it."""
    source = None if column.source is None else schema.field_by_id(column.source).name
    if column.transform == "identity":
        return str(source) if column.name == source else f"{source} as {column.name}"
    parts = [part for part in (source, _argument_text(column)) if part is not None]
    call = f"{column.transform}({', '.join(parts)})"
    return call if column.name in (column.transform, source) else f"{call} as {column.name}"


def _argument_text(column: PartitionColumn) -> str | None:
    if column.transform == "time_slice":
        return f"'{int(column.argument or 0) // 1_000_000}s'"
    if column.transform in ("constant", "get_or_else"):
        return "'" + str(column.argument).replace("'", "''") + "'"
    return None if column.argument is None else str(column.argument)
