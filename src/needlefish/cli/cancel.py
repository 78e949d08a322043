"""`needlefish cancel`: a plan that shall not be executed, or stop where it is."""

from dataclasses import asdict
from typing import Annotated

import typer

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.execute import Plan
from needlefish.cli.json_output import print_json
from needlefish.cli.service_text import cancelled

Force = Annotated[bool, typer.Option("--force", metavar="", help="Also a plan that is immutable.")]


def cancel(uri: given.Uri, plan: Plan, force: Force = False, option: given.Options = None, as_json: given.AsJson = False) -> None:
    """Ask a plan to stop: from now on it cannot commit. One that nobody executes is over at once."""
    result = given.open_table(uri, option).cancel(plan, force=force)
    if as_json:
        print_json(asdict(result))
    else:
        stdout_console().print(cancelled(result))
