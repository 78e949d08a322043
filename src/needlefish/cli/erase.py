"""`needlefish erase`: rows whose values must be gone from storage, with a report that proves it."""

from typing import Annotated

import typer
from rich.table import Table as Grid
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.append import Files, Form, Multiline
from needlefish.cli.clean import Grace
from needlefish.cli.console import stdout_console
from needlefish.cli.duration import optional_seconds
from needlefish.cli.human import counted, seconds_text, time_text
from needlefish.cli.input_files import expanded, format_of
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown, started_spark
from needlefish.services.erase import ErasureReport, Place

Expire = Annotated[bool, typer.Option("--expire", metavar="", help="Give up all older versions, which would still hold the values.")]


def erase(
    uri: given.Uri,
    files: Files,
    expire: Expire = False,
    grace: Grace = None,
    form: Form = None,
    multiline: Multiline = False,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Delete the rows of keys in files and remove their values from storage, through Spark.

    The files need the key columns, and those that partitions are computed from. The report says of every place whether anything
    remains there and until when: older versions hold the rows until retention lets them go, or until --expire.
    """
    graced = optional_seconds(grace, "--grace")
    table = given.open_table(uri, option)
    paths = expanded(files)
    kind = format_of(paths, form)
    spark = started_spark(quiet=as_json)
    from needlefish.spark.files import read_files

    with shown(f"erasing the keys of {counted(len(paths), 'input')}", spark, quiet=as_json):
        keys = read_files(spark, paths, kind.value, table.schema, multiline=multiline)
        report = table.erase(keys, expire, grace_seconds=graced)
    if as_json:
        print_json(report.to_dict())
    else:
        _print(report)


def _print(report: ErasureReport) -> None:
    console = stdout_console()
    console.print(_places(report))
    for note in report.notes:
        console.print(Text(f"note: {note}"), soft_wrap=True)
    verdict = ("nothing remains", "bold green") if report.complete else ("not everything is gone yet", "bold yellow")
    what = f"{counted(report.keys, 'key')}, {counted(report.deleted, 'row')} deleted, {counted(report.files, 'file')} rewritten or removed"
    console.print(Text.assemble(f"version {report.version}: ", verdict, f"; {what}, in {seconds_text(report.seconds)}"))


def _places(report: ErasureReport) -> Grid:
    grid = Grid(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("place", "gone", "remain", "until", "looked at"):
        grid.add_column(title, justify="right" if title in ("gone", "remain") else "left", no_wrap=title != "looked at")
    for place in report.places:
        grid.add_row(place.name, f"{place.gone:,}", f"{place.remains:,}", _until(place), Text(place.checked))
    return grid


def _until(place: Place) -> str:
    if place.until_ms is None:
        return ""
    more = f", {counted(place.changes, 'change')}" if place.changes else ""
    return time_text(place.until_ms)[:19] + more
