"""`needlefish execute`: the work of a plan that somebody has made."""

from typing import Annotated

import typer

from needlefish.cli import arguments as given
from needlefish.cli.planned_service import execute_plan

Plan = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id, as 'plans' shows it.", show_default=False)]


def execute(uri: given.Uri, plan: Plan, option: given.Options = None, as_json: given.AsJson = False) -> None:
    """Execute a plan that waits; tell what came of it if another worker has done it."""
    execute_plan(given.open_table(uri, option), plan, as_json=as_json)
