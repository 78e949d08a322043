"""`needlefish upsert`: rows from files that replace those with the same key, through Spark, as one version."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import pyarrow as pa
import typer

from needlefish.api import Table
from needlefish.cli import arguments as given
from needlefish.cli.append import Files, Form, Multiline
from needlefish.cli.batch_text import BatchText, batch_from_text
from needlefish.cli.change_text import upserted
from needlefish.cli.console import stdout_console
from needlefish.cli.human import counted
from needlefish.cli.input_files import expanded, format_of
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown, started_spark
from needlefish.errors import InvalidError


class Columns(StrEnum):
    """Which columns of a row an upsert replaces."""

    ALL = "all"
    PRESENT = "present"


OrderBy = Annotated[
    str | None,
    typer.Option(
        "--order-by",
        metavar="COLUMN",
        help="Of rows with the same key the one with the greatest value counts, stored ones included; the last one unless given.",
        show_default=False,
    ),
]
DeletedBy = Annotated[
    str | None,
    typer.Option(
        "--deleted-by",
        metavar="COLUMN",
        help="A boolean column of the files, not of the table: rows where it is true are deleted.",
        show_default=False,
    ),
]
WhichColumns = Annotated[
    Columns, typer.Option("--columns", help="'present' keeps the stored values of columns that the files lack; 'all' makes them null.")
]


def upsert(
    uri: given.Uri,
    files: Files,
    order_by: OrderBy = None,
    batch: BatchText = None,
    deleted_by: DeletedBy = None,
    columns: WhichColumns = Columns.ALL,
    form: Form = None,
    multiline: Multiline = False,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Insert rows with new keys and replace rows with known ones, from files, through Spark.

    All of it becomes visible at once, as one version, or nothing does. No data file is rewritten.
    """
    # Whatever is wrong with the arguments is said before Spark takes its seconds to start.
    table = given.open_table(uri, option)
    delivery = batch_from_text(batch)
    schema = _schema(table, order_by, deleted_by)
    paths = expanded(files)
    kind = format_of(paths, form)
    spark = started_spark(quiet=as_json)
    from needlefish.spark.files import read_files

    with shown(f"upserting {counted(len(paths), 'input')}", spark, quiet=as_json):
        rows = read_files(spark, paths, kind.value, schema, multiline=multiline)
        result = table.upsert(rows, order_by, delivery, deleted_by=deleted_by, columns=columns.value)
    if as_json:
        print_json(asdict(result))
        return
    stdout_console().print(upserted(result))


def _schema(table: Table, order_by: str | None, deleted_by: str | None) -> pa.Schema:
    """What the files may have: the table's columns, and the mark of deletes."""
    schema = table.schema
    if order_by is not None and order_by not in schema.names:
        raise InvalidError(f"--order-by is {order_by!r}, which is no column of the table; it has {', '.join(schema.names)}")
    if deleted_by is None:
        return schema
    if deleted_by in schema.names:
        raise InvalidError(f"--deleted-by is {deleted_by!r}, which is a column of the table; rename it in the files")
    return schema.append(pa.field(deleted_by, pa.bool_()))
