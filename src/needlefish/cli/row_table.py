"""Rows as a table on a terminal: one line per row, and only as many columns as can be read."""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from needlefish.cli.csv_output import cell_text

# Longer cells are cut, so that one long text does not push everything else out.
_WIDEST = 40
_GAP = 2
_LONGEST_BINARY = 16


def print_rows(console: Console, rows: pa.Table) -> None:
    """Prints `rows`, which are few. Columns that do not fit are named below instead of being squeezed to nothing."""
    cells = [[_cell(value) for value in column.to_pylist(maps_as_pydicts="strict")] for column in rows.columns]
    shown = _fitting(rows.schema.names, cells, console.width)
    table = Table(header_style="bold", pad_edge=False, box=None, padding=(0, _GAP, 0, 0))
    for field in list(rows.schema)[:shown]:
        table.add_column(
            Text(field.name), justify="right" if _is_number(field.type) else "left", no_wrap=True, overflow="ellipsis", max_width=_WIDEST
        )
    for row in zip(*cells[:shown], strict=True):
        table.add_row(*row)
    console.print(table)
    if hidden := rows.schema.names[shown:]:
        console.print(Text(f"not shown for want of space: {', '.join(hidden)}", style="dim"))


def _fitting(names: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> int:
    """How many columns, from the left, have room; the first always does."""
    used = 0
    for place, (name, column) in enumerate(zip(names, cells, strict=True)):
        used += min(_WIDEST, max([len(name), *map(len, column)]))
        if used > width and place:
            return place
        used += _GAP
    return len(names)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _cell(value: object) -> Text:
    if value is None:
        return Text("null", style="dim")
    if isinstance(value, bytes):
        # As `where` would take it: X'0aff'.
        return Text(f"X'{value[:_LONGEST_BINARY].hex()}{'…' if len(value) > _LONGEST_BINARY else ''}'")
    if isinstance(value, datetime):
        return Text(_moment(value))
    # A line break inside a cell would tear the row apart.
    return Text(str(cell_text(value)).replace("\n", "⏎").replace("\r", ""))


def _moment(value: datetime) -> str:
    """Milliseconds where they say it all, microseconds where there are some."""
    precise = "microseconds" if value.microsecond % 1000 else "milliseconds"
    return value.isoformat(sep=" ", timespec=precise).replace("+00:00", "Z")
