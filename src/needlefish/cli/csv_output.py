"""Rows as CSV for pipes, so that `needlefish append` and Spark read back exactly what was there."""

import base64
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa

from needlefish.cli.json_output import json_text

_NEEDS_QUOTES = re.compile(r'[",\r\n]|\A\s|\s\Z|\A\Z')


def csv_line(cells: Sequence[str | None]) -> str:
    """A null is nothing at all between the commas, an empty text is two quotes."""
    return ",".join("" if cell is None else _quoted(cell) for cell in cells)


def csv_lines(batch: pa.RecordBatch) -> Iterator[str]:
    columns = [[cell_text(value) for value in column.to_pylist(maps_as_pydicts="strict")] for column in batch.columns]
    return (csv_line(cells) for cells in zip(*columns, strict=True))


def cell_text(value: object) -> str | None:
    """A value as one text; nested values are JSON."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            # Spark's CSV reader knows exactly these names.
            return "NaN" if value != value else repr(value).replace("inf", "Inf")
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case dict() | list():
            return json_text(value)
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if _NEEDS_QUOTES.search(text) else text
