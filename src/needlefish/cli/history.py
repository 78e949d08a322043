"""`needlefish history`: what happened to a table, newest first."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table as Grid
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.console import on_terminal, stdout_console
from needlefish.cli.human import bytes_text, counted, time_text
from needlefish.cli.json_output import print_json
from needlefish.table.history import HistoryEntry

_TERMINAL_VERSIONS = 20
_NUMBERS = ("version", "rows", "files", "bytes", "hidden", "compared with")

Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        "-n",
        metavar="N",
        min=0,
        help=f"At most this many versions; {_TERMINAL_VERSIONS} on a terminal, all in a pipe, 0 for all.",
        show_default=False,
    ),
]


Steps = Annotated[bool, typer.Option("--steps", help="Also the versions between: who asked for work, began it, or gave it up.")]


def history(uri: given.Uri, limit: Limit = None, steps: Steps = False, option: given.Options = None, as_json: given.AsJson = False) -> None:
    """List the versions of a table, newest first: when, what, how much."""
    table = given.open_table(uri, option)
    asked = limit if limit is not None else _TERMINAL_VERSIONS if on_terminal() and not as_json else 0
    # One more than is shown tells whether there are any.
    entries = table.history(asked + 1 if asked else None, steps=steps)
    shown = entries[:asked] if asked else entries
    if as_json:
        print_json([asdict(entry) for entry in shown])
        return
    console = stdout_console()
    console.print(history_table(shown, steps=steps))
    if len(shown) < len(entries):
        console.print(Text(f"\nshowing the newest {counted(len(shown), 'version')}; --limit 0 shows all", style="bold"))


def history_table(entries: Sequence[HistoryEntry], *, steps: bool = False) -> Grid:
    """One line for each version; with `steps` it says which of them belong together."""
    grid = Grid(header_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    lineage = {title for entry in entries for title in _lineage(entry)} - ({"instant"} if not steps else set())
    more = [title for title in ("hidden", "compared with", "batch", "instant") if title in lineage]
    for title in ("version", "committed (UTC)", "action", "rows", "files", "bytes", *more, "writer"):
        grid.add_column(title, justify="right" if title in _NUMBERS else "left", no_wrap=True)
    for entry in entries:
        known = _lineage(entry)
        shown = (known.get(title, "") for title in more)
        grid.add_row(str(entry.version), time_text(entry.timestamp_ms), entry.action, *_added(entry), *shown, entry.writer)
    return grid


def _added(entry: HistoryEntry) -> tuple[str, str, str]:
    """Rewritten files leave fewer, so that all of this may be negative."""
    if not (entry.files or entry.rows or entry.bytes):
        return "", "", ""
    return f"{entry.rows:+,}", f"{entry.files:+,}", f"{'-' if entry.bytes < 0 else '+'}{bytes_text(abs(entry.bytes))}"


def _lineage(entry: HistoryEntry) -> dict[str, str]:
    """What upserts and deletes have besides; a table without any shows no such columns."""
    found = {
        "hidden": f"{entry.skipped:,}" if entry.skipped else None,
        "compared with": None if entry.prev_max is None else str(entry.prev_max),
        "batch": None if entry.batch is None else f"{entry.batch.application} {entry.batch.number}",
        "instant": entry.instant,
    }
    return {title: text for title, text in found.items() if text is not None}
