"""`needlefish describe`: what a table is and how much is in it."""

from dataclasses import asdict

from rich.console import Group
from rich.table import Table as Grid
from rich.text import Text

from needlefish.api.describe import ColumnDescription, Description
from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.human import bytes_text, counted, time_text
from needlefish.cli.json_output import print_json


def describe(
    uri: given.Uri,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Show a table's version, size, key, partitions, columns and properties."""
    found = given.open_table(uri, option, version, timestamp).describe()
    if as_json:
        print_json(asdict(found))
        return
    stdout_console().print(description(found))


def description(found: Description) -> Group:
    """A description as people read it."""
    indexes = (Text(), _indexes(found)) if found.point_indexes else ()
    return Group(_facts(found), Text(), _columns(found), *indexes)


def _facts(found: Description) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    hidden = f" and {found.skipped:,} hidden" if found.skipped else ""
    size = f"{counted(found.rows, 'row')}{hidden} in {counted(found.files, 'file')}, {bytes_text(found.bytes)}"
    lines = {
        "table": found.uri,
        "version": f"{found.version}, committed {time_text(found.timestamp_ms)} UTC",
        "size": size,
        "key": ", ".join(found.key),
        "partitions": ", ".join(found.partition_by) or "none",
        "format": f"{found.format}, {counted(found.runs, 'run')}",
        "properties": ", ".join(f"{name}={value}" for name, value in found.properties.items()),
    }
    if found.batches:
        lines["batches"] = ", ".join(f"{application}: {number}" for application, number in found.batches.items())
    for name, text in lines.items():
        grid.add_row(Text(name, style="cyan"), Text(text, overflow="fold"))
    return grid


def _indexes(found: Description) -> Grid:
    grid = Grid(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("point index", "columns", "kind", "runs", "keys", "bytes", "bits a key", "false reads", "not covered"):
        grid.add_column(title, justify="left" if title in ("point index", "columns", "kind") else "right", overflow="fold")
    for index in found.point_indexes:
        kind = index.kind if index.granularity == "row_group" else f"{index.kind}, by file"
        counts = (f"{index.runs:,}", f"{index.keys:,}", bytes_text(index.bytes), f"{index.bits_per_key:.1f}")
        reads = f"{index.expected_false_reads:.2g} of {index.false_reads:.2g}"
        grid.add_row(Text(index.name), Text(", ".join(index.columns)), Text(kind), *counts, reads, f"{index.uncovered_files:,}")
    return grid


def _columns(found: Description) -> Grid:
    grid = Grid(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("column", "type", "null", "role"):
        grid.add_column(title, overflow="fold")
    for column in found.columns:
        grid.add_row(Text(column.name), Text(column.type), Text("yes" if column.nullable else "no"), Text(_role(column, found)))
    return grid


def _role(column: ColumnDescription, found: Description) -> str:
    roles = []
    if column.key_position is not None:
        roles.append("key" if len(found.key) == 1 else f"key {column.key_position + 1} of {len(found.key)}")
    if any(column.name in index.columns for index in found.point_indexes):
        roles.append("point index")
    if column.name in found.bloom_columns:
        roles.append("Bloom filter")
    return ", ".join(roles)
