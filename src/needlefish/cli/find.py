"""`needlefish find`: rows by value, without Spark."""

from typing import Annotated

import pyarrow as pa
import typer

from needlefish.cli import arguments as given
from needlefish.cli.find_output import show_found
from needlefish.cli.scan import Columns
from needlefish.errors import InvalidError
from needlefish.runtime import SYSTEM
from needlefish.table.values import coerce_value

Values = Annotated[
    list[str],
    typer.Argument(
        metavar="COLUMN=VALUE...",
        help="What to look for; a column twice means either value, several columns mean all of them.",
        show_default=False,
    ),
]
Receipt = Annotated[
    bool, typer.Option("--receipt", metavar="", help="Say what the find cost also in a pipe: with --json as a last line, else on stderr.")
]


def find(
    uri: given.Uri,
    values: Values,
    columns: Columns = None,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    receipt: Receipt = False,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Print the rows that hold a value: as a table on a terminal, as CSV in a pipe, as one JSON object per line with --json.

    Only files that may hold the value are opened, and only those granules of them are read; the receipt says how many.
    """
    if columns is not None and not given.names(columns):
        raise InvalidError(f"--columns is {','.join(columns)!r}; name at least one column, or leave it out for all")
    table = given.open_table(uri, option, version, timestamp)
    started = SYSTEM.clock.monotonic()
    found = table.find(_conditions(values, table.schema), columns=given.names(columns) or None)
    show_found(found, SYSTEM.clock.monotonic() - started, with_receipt=receipt, as_json=as_json)


def _conditions(texts: list[str], schema: pa.Schema) -> dict[str, object]:
    """What `table.find` takes: one value for each column, or a list for a column that is named again."""
    found: dict[str, list[object]] = {}
    for name, text in given.pairs(texts, "COLUMN=VALUE"):
        found.setdefault(name, []).append(_value(name, text, schema))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _value(name: str, text: str, schema: pa.Schema) -> object:
    """The text as a value of the column; the find itself refuses columns that it cannot look into."""
    if name not in schema.names or pa.types.is_nested(schema.field(name).type):
        return text
    return coerce_value(text, schema.field(name).type, f"{name}=…", texts=True)
