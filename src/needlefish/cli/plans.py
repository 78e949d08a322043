"""`needlefish plans`: who works on a table and what waits, now or while it changes."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.live import Live

from needlefish.api import Table
from needlefish.cli import arguments as given
from needlefish.cli.console import on_terminal, stdout_console
from needlefish.cli.json_output import print_json
from needlefish.cli.service_text import plans_table
from needlefish.runtime import SYSTEM

_WATCH_SECONDS = 2.0

Ended = Annotated[int, typer.Option("--ended", metavar="N", min=0, help="Also what ended in this many of the newest versions.")]
Watch = Annotated[bool, typer.Option("--watch", metavar="", help="Look again every two seconds, until Ctrl-C.")]


def plans(uri: given.Uri, ended: Ended = 0, watch: Watch = False, option: given.Options = None, as_json: given.AsJson = False) -> None:
    """Show all work that is not over: state, owner, heartbeat, inputs, progress, and what it waits for."""
    table = given.open_table(uri, option)
    if watch:
        _watch(table, ended, as_json=as_json)
    else:
        _print(table, ended, as_json=as_json)


def _print(table: Table, ended: int, *, as_json: bool) -> None:
    found = table.plans(ended)
    if as_json:
        print_json([asdict(status) for status in found])
    else:
        stdout_console().print(plans_table(found))


def _watch(table: Table, ended: int, *, as_json: bool) -> None:
    """A terminal shows the newest look alone; a pipe gets every one."""
    if as_json or not on_terminal():
        while True:
            _print(table, ended, as_json=as_json)
            SYSTEM.clock.sleep(_WATCH_SECONDS)
    with Live(plans_table(table.plans(ended)), console=stdout_console(), auto_refresh=False) as live:
        while True:
            SYSTEM.clock.sleep(_WATCH_SECONDS)
            live.update(plans_table(table.plans(ended)), refresh=True)
