"""`needlefish append`: rows from files, through Spark, as one version."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.human import bytes_text, counted, seconds_text
from needlefish.cli.input_files import FileFormat, expanded, format_of
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown, started_spark

if TYPE_CHECKING:
    from needlefish.spark.append import AppendResult

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Parquet, CSV or JSON files, directories of them, or patterns such as 'day/*.csv'.", show_default=False
    ),
]
Form = Annotated[
    FileFormat | None, typer.Option("--format", "-f", help="What the files are; by default what their endings say.", show_default=False)
]
Multiline = Annotated[
    bool,
    typer.Option("--multiline", metavar="", help="CSV cells may hold line breaks; a JSON file is one document, not a line for each row."),
]


def append(
    uri: given.Uri,
    files: Files,
    form: Form = None,
    multiline: Multiline = False,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Add rows that are known to be new, from files, through Spark.

    All rows become visible at once, as one version, or none do: nulls and duplicates in the key, unknown columns and
    cells that do not fit are refused. CSV files need a header.
    """
    # Whatever is wrong with the arguments is said before Spark takes its seconds to start.
    table = given.open_table(uri, option)
    paths = expanded(files)
    kind = format_of(paths, form)
    spark = started_spark(quiet=as_json)
    from needlefish.spark.files import read_files

    with shown(f"appending {counted(len(paths), 'input')}", spark, quiet=as_json):
        result = table.append(read_files(spark, paths, kind.value, table.schema, multiline=multiline))
    if as_json:
        print_json(asdict(result))
        return
    stdout_console().print(appended(result))


def appended(result: "AppendResult") -> Text:
    """What an append did, in a sentence."""
    if not result.rows:
        return Text(f"no rows: nothing was changed, the table is at version {result.version}")
    what = f"{counted(result.rows, 'row')} in {counted(result.files, 'file')}, {bytes_text(result.bytes)}"
    return Text(f"version {result.version}: {what}, in {seconds_text(result.seconds)}")
