"""`needlefish clean`: what no readable version needs goes, with the reason for each kind."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table as Grid
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.duration import optional_seconds
from needlefish.cli.human import bytes_text, counted, seconds_text
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown
from needlefish.services.clean import CleanResult

DryRun = Annotated[bool, typer.Option("--dry-run", metavar="", help="Only say what would go, and why.")]
KeepVersions = Annotated[
    int | None,
    typer.Option(
        "--keep-versions", metavar="N", min=1, help="The last so many versions that changed the table stay readable.", show_default=False
    ),
]
Keep = Annotated[
    str | None,
    typer.Option("--keep", metavar="DURATION", help="Versions younger than this stay readable: 12h, 7d.", show_default=False),
]
Grace = Annotated[
    str | None,
    typer.Option("--grace", metavar="DURATION", help="How long a reader may go on with what was replaced: 1h.", show_default=False),
]


def clean(
    uri: given.Uri,
    dry_run: DryRun = False,
    keep_versions: KeepVersions = None,
    keep: Keep = None,
    grace: Grace = None,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Remove what no readable version needs, and what dead work left behind: files, runs, log entries, orphans.

    What is not said is the table's own property: retained_versions, retained_seconds, grace_seconds. Nothing goes that a readable
    version or live work needs.
    """
    kept, graced = optional_seconds(keep, "--keep"), optional_seconds(grace, "--grace")
    table = given.open_table(uri, option)
    with shown("cleaning", quiet=as_json):
        result = table.clean(dry_run, retained_versions=keep_versions, retained_seconds=kept, grace_seconds=graced)
    if as_json:
        print_json(asdict(result) | {"objects": result.objects, "bytes": result.bytes})
    else:
        _print(result)


def _print(result: CleanResult) -> None:
    console = stdout_console()
    if result.removed:
        console.print(removed_table(result))
    for line in (*(f"undone: {words}" for words in result.rolled_back), *(f"note: {words}" for words in result.notes)):
        console.print(Text(line), soft_wrap=True)
    console.print(cleaned(result))


def removed_table(result: CleanResult) -> Grid:
    """One line for each kind and reason."""
    grid = Grid(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("objects", "bytes", "what", "why"):
        grid.add_column(title, justify="right" if title in ("objects", "bytes") else "left", no_wrap=title != "why")
    for one in result.removed:
        grid.add_row(f"{one.objects:,}", bytes_text(one.bytes), one.kind, Text(one.why))
    return grid


def cleaned(result: CleanResult) -> Text:
    """All of it in a sentence."""
    verb = "would be removed" if result.dry_run else "removed"
    what = f"{counted(result.objects, 'object')}, {bytes_text(result.bytes)} {verb}"
    cost = f"{counted(result.requests, 'request')}, in {seconds_text(result.seconds)}"
    return Text(f"version {result.version}: {what}; versions from {result.oldest} on can be read; {cost}")
