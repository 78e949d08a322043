"""`needlefish rebuild`: index runs made anew from the data files, through Spark."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.human import counted, seconds_text
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown, started_spark
from needlefish.cli.scan import Partitions, partition_values

KindOf = Annotated[
    str, typer.Argument(metavar="KIND", help="files, column_stats, bloom_filters, or index/NAME of a point index.", show_default=False)
]


def rebuild(
    uri: given.Uri, kind: KindOf, partition: Partitions = None, option: given.Options = None, as_json: given.AsJson = False
) -> None:
    """Make the runs of one kind anew from footers and data, for all partitions or some, through Spark.

    Damaged runs are replaced. What could not be recovered is named: files that no run names any more stay out.
    """
    table = given.open_table(uri, option)
    partitions = partition_values(partition)
    spark = started_spark(quiet=as_json)
    with shown(f"rebuilding {kind}", spark, quiet=as_json):
        result = table.rebuild(kind, partitions=partitions)
    if as_json:
        print_json(asdict(result))
        return
    console = stdout_console()
    for text in result.lost:
        console.print(Text.assemble(("lost: ", "bold red"), text), soft_wrap=True)
    runs = f"{counted(result.runs_added, 'run')} in the place of {result.runs_removed:,}"
    console.print(Text(f"version {result.version}: {kind} of {counted(result.files, 'file')}, {runs}, in {seconds_text(result.seconds)}"))
