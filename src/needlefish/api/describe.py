"""`table.describe()`: what a table is, for people and for `--json`."""

from dataclasses import asdict, dataclass

from needlefish.index.point_kinds import expected_false_reads, whole_runs
from needlefish.model.definition import PartitionColumn
from needlefish.model.log import TableState
from needlefish.model.point_index import PointIndexDefinition
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
class IndexDescription:
    """One point index. `false_reads` is what is declared, `expected_false_reads` what the runs there are will cause."""

    name: str
    columns: tuple[str, ...]
    kind: str
    granularity: str
    false_reads: float
    expected_false_reads: float
    runs: int
    keys: int
    bytes: int
    bits_per_key: float
    uncovered_files: int


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
    point_indexes: tuple[IndexDescription, ...]
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
        point_indexes=tuple(_index(state, index) for index in definition.point_indexes),
        columns=tuple(_column(state, position) for position in range(len(definition.schema.fields))),
        properties=asdict(definition.properties),
        batches={batch.application: batch.number for batch in state.batches},
    )


def _index(state: TableState, index: PointIndexDefinition) -> IndexDescription:
    runs = state.runs_of(index.run_kind)
    keys, size = sum(run.point.keys for run in runs if run.point is not None), sum(run.bytes for run in runs)
    return IndexDescription(
        name=index.name,
        columns=tuple(state.definition.schema.field_by_id(field_id).name for field_id in index.fields),
        kind=index.kind,
        granularity=index.granularity,
        false_reads=index.false_reads,
        expected_false_reads=expected_false_reads(runs),
        runs=len(whole_runs(runs)),
        keys=keys,
        bytes=size,
        bits_per_key=8 * size / keys if keys else 0.0,
        uncovered_files=sum(run.records for run in state.runs_of(index.uncovered_kind)),
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
