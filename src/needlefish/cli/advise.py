"""`needlefish advise`: what point indexes on a column would cost, beside those there are."""

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.json_output import print_json

Columns = Annotated[str, typer.Argument(metavar="COLUMN", help="The column, or several together as A,B.", show_default=False)]


def advise(uri: given.Uri, columns: Columns, option: given.Options = None, as_json: given.AsJson = False) -> None:
    """Sample a column and show, for each kind and width of point index, what it would cost and save.

    Indexes that the table has already are measured, and shown below their forecast.
    """
    advice = given.open_table(uri, option).advise(given.names([columns]))
    if as_json:
        print_json(asdict(advice))
        return
    stdout_console().print(Text(str(advice)), soft_wrap=True)
