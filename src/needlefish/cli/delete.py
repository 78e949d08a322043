"""`needlefish delete`: rows by key, from files, or by a condition, as one version that writes no data file."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from needlefish.api import Table
from needlefish.cli import arguments as given
from needlefish.cli.append import Form, Multiline
from needlefish.cli.batch_text import BatchText, batch_from_text
from needlefish.cli.change_text import deleted
from needlefish.cli.console import stdout_console
from needlefish.cli.human import counted
from needlefish.cli.input_files import FileFormat, expanded, format_of
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown, started_spark
from needlefish.errors import InvalidError
from needlefish.table.upsert.result import DeleteResult

Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--keys",
        "-k",
        metavar="FILE",
        help="Parquet, CSV or JSON with the key columns, and those that partitions are computed from; repeatable.",
        show_default=False,
    ),
]
Where = Annotated[
    str | None,
    typer.Option("--where", "-w", metavar="SQL", help='A condition, such as "user_id = 7"; all rows that match go.', show_default=False),
]


def delete(
    uri: given.Uri,
    keys: Keys = None,
    where: Where = None,
    batch: BatchText = None,
    form: Form = None,
    multiline: Multiline = False,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Delete rows, by key or by a condition, through Spark.

    The rows are hidden from this version on; earlier versions still have them. Keys without a row are counted.
    """
    table = given.open_table(uri, option)
    delivery = batch_from_text(batch)
    if (keys is None) == (where is None):
        raise InvalidError("delete takes --keys FILE or --where SQL; give exactly one of them")
    if where is not None:
        result = _by_condition(table, where, delivery, quiet=as_json)
    else:
        paths = expanded(keys or ())
        result = _by_keys(table, paths, format_of(paths, form), delivery, multiline=multiline, quiet=as_json)
    if as_json:
        print_json(asdict(result))
        return
    stdout_console().print(deleted(result))


def _by_condition(table: Table, where: str, batch: tuple[str, int] | None, *, quiet: bool) -> DeleteResult:
    # A condition that is wrong is refused here, before Spark takes its seconds to start.
    table.scan(where=where)
    spark = started_spark(quiet=quiet)
    with shown("deleting", spark, quiet=quiet):
        return table.delete(where=where, batch=batch)


def _by_keys(
    table: Table, paths: Sequence[str], form: FileFormat, batch: tuple[str, int] | None, *, multiline: bool, quiet: bool
) -> DeleteResult:
    spark = started_spark(quiet=quiet)
    from needlefish.spark.files import read_files

    with shown(f"deleting the keys of {counted(len(paths), 'input')}", spark, quiet=quiet):
        return table.delete(read_files(spark, paths, form.value, table.schema, multiline=multiline), batch=batch)
