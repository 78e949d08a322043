"""`needlefish scan`: rows of a table, without Spark."""

import math
from typing import Annotated

import pyarrow as pa
import typer

from needlefish.api import Table
from needlefish.cli import arguments as given
from needlefish.cli.console import on_terminal
from needlefish.cli.key_range import parse_key_range
from needlefish.cli.scan_output import Wanted, show_count, show_rows
from needlefish.errors import InvalidError

# A screenful; a pipe gets everything.
_TERMINAL_ROWS = 20

Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", "-c", metavar="A,B", help="Only these columns; a list with commas, or repeated.", show_default=False),
]
Where = Annotated[
    str | None,
    typer.Option("--where", "-w", metavar="SQL", help="A condition, such as \"status >= 500 and host = 'a'\".", show_default=False),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        "-p",
        metavar="NAME=VALUE",
        help="Only this partition, such as day=2026-11-01; repeat a name for several values.",
        show_default=False,
    ),
]
KeyFrom = Annotated[
    list[str] | None, typer.Option("--key-from", metavar="VALUE", help="First row key; repeat for further key columns.", show_default=False)
]
KeyTo = Annotated[
    list[str] | None,
    typer.Option("--key-to", metavar="VALUE", help="Last row key, included; repeat for further key columns.", show_default=False),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        "-n",
        metavar="N",
        min=0,
        help=f"At most this many rows; {_TERMINAL_ROWS} on a terminal, all in a pipe, 0 for all.",
        show_default=False,
    ),
]
Count = Annotated[bool, typer.Option("--count", metavar="", help="Only count the rows.")]
Receipt = Annotated[
    bool, typer.Option("--receipt", metavar="", help="Say what the scan cost also in a pipe: with --json as a last line, else on stderr.")
]


def scan(
    uri: given.Uri,
    columns: Columns = None,
    where: Where = None,
    partition: Partitions = None,
    key_from: KeyFrom = None,
    key_to: KeyTo = None,
    limit: Limit = None,
    count: Count = False,
    version: given.Version = None,
    timestamp: given.Timestamp = None,
    receipt: Receipt = False,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Print rows: as a table on a terminal, as CSV in a pipe, as one JSON object per line with --json.

    Partitions, key ranges and granules that cannot hold matching rows are not read; the receipt says how many.
    """
    _check(count, limit, columns)
    table = given.open_table(uri, option, version, timestamp)
    found = table.scan(
        columns=[_narrowest(table.schema)] if count else given.names(columns) or None,
        where=where,
        partitions=partition_values(partition),
        key_range=parse_key_range(key_from, key_to, _key_types(table)),
    )
    if count:
        show_count(found, with_receipt=receipt, as_json=as_json)
        return
    filtered = bool(where or partition or key_from or key_to)
    wanted = Wanted(limit=_limit(limit, as_json), receipt=receipt, total_rows=None if filtered else table.describe().rows)
    show_rows(found, wanted, as_json=as_json)


def _check(count: bool, limit: int | None, columns: list[str] | None) -> None:
    if count and (limit is not None or columns):
        raise InvalidError("--count is given with --limit or --columns, which do not change a count; leave them out")
    if columns is not None and not given.names(columns):
        raise InvalidError(f"--columns is {','.join(columns)!r}; name at least one column, or leave it out for all")


def _narrowest(schema: pa.Schema) -> str:
    """Counting has to read some column: the one with the fewest bits per value, texts and the like last."""
    return str(min(schema, key=lambda field: field.type.bit_width if pa.types.is_primitive(field.type) else math.inf).name)


def _limit(asked: int | None, as_json: bool) -> int | None:
    """None is no limit, which a person asks for with 0."""
    if asked is None:
        return _TERMINAL_ROWS if on_terminal() and not as_json else None
    return asked or None


def partition_values(texts: list[str] | None) -> dict[str, list[str]] | None:
    """The same name twice means either value."""
    found: dict[str, list[str]] = {}
    for name, value in given.pairs(texts, "--partition"):
        found.setdefault(name, []).append(value)
    return found or None


def _key_types(table: Table) -> dict[str, pa.DataType]:
    return {name: table.schema.field(name).type for name in table.describe().key}
