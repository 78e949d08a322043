"""`needlefish drop-index`: forgets a point index."""

from typing import Annotated

import typer
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.json_output import print_json

Name = Annotated[str, typer.Argument(metavar="NAME", help="The index, as describe names it.", show_default=False)]


def drop_index(uri: given.Uri, name: Name, option: given.Options = None, as_json: given.AsJson = False) -> None:
    """Forget a point index; finds go on without it, slower."""
    table = given.open_table(uri, option).drop_index(name)
    if as_json:
        print_json({"version": table.version, "dropped": name})
        return
    stdout_console().print(Text(f"version {table.version}: index {name} dropped"))
