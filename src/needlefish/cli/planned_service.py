"""What `compact`, `cluster` and `execute` share: plan, start Spark if the plan needs it, execute, tell."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from needlefish.api import Table
from needlefish.api.worker import HERE_BYTES
from needlefish.cli.console import stdout_console
from needlefish.cli.human import bytes_text, counted
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown, started_spark
from needlefish.cli.service_text import executed
from needlefish.services.status import InstantStatus

Immutable = Annotated[
    bool,
    typer.Option(
        "--immutable", metavar="", help="The plan stands until it was executed: writers that would touch its files are refused meanwhile."
    ),
]
PlanOnly = Annotated[bool, typer.Option("--plan-only", metavar="", help="Only plan; 'execute' or a 'tend' does the work.")]


def plan_and_execute(table: Table, kind: str, options: Mapping[str, object], *, immutable: bool, plan_only: bool, as_json: bool) -> None:
    """One service, from the plan to the sentence about it."""
    given = {name: value for name, value in options.items() if value is not None}
    with shown(f"planning a {kind}", quiet=as_json):
        plan_id = table.schedule(kind, not immutable, **given)
    if plan_id is None:
        _tell_nothing(table, kind, as_json=as_json)
    elif plan_only:
        _tell_plan(_status(table, plan_id), as_json=as_json)
    else:
        execute_plan(table, plan_id, as_json=as_json)


def execute_plan(table: Table, plan_id: str, *, as_json: bool) -> None:
    status = _status(table, plan_id)
    is_large = status is not None and (status.bytes or 0) >= HERE_BYTES
    spark = started_spark(quiet=as_json) if is_large else None
    what = plan_id if status is None else f"{status.action} of {counted(status.files or 0, 'file')}, {bytes_text(status.bytes or 0)}"
    with shown(what, spark, quiet=as_json):
        result = table.execute(plan_id)
    if as_json:
        print_json(asdict(result))
    else:
        stdout_console().print(executed(result))


def _status(table: Table, plan_id: str) -> InstantStatus | None:
    return next((status for status in table.plans() if status.id == plan_id), None)


def _tell_nothing(table: Table, kind: str, *, as_json: bool) -> None:
    if as_json:
        print_json(None)
    else:
        stdout_console().print(Text(f"nothing is worth a {kind}: the table stays at version {table.version}"))


def _tell_plan(status: InstantStatus | None, *, as_json: bool) -> None:
    assert status is not None, "a plan that was just made is not over"
    if as_json:
        print_json(asdict(status))
        return
    inputs = f"{counted(status.files or 0, 'file')}, {counted(status.rows or 0, 'row')}, {bytes_text(status.bytes or 0)}"
    stdout_console().print(Text(f"version {status.version}: plan {status.id}: {status.action} of {inputs}"))
