"""The demo itself: makes room, starts Spark, walks through the steps."""

from typing import Annotated

import typer
from rich.console import Console

from needlefish.cli import arguments as given
from needlefish.cli.console import on_terminal, stdout_console
from needlefish.cli.demo.change_steps import CHANGE_STEPS
from needlefish.cli.demo.look_back_steps import LOOK_BACK_STEPS
from needlefish.cli.demo.place import DEFAULT, cleared
from needlefish.cli.demo.read_steps import READ_STEPS
from needlefish.cli.demo.service_steps import SERVICE_STEPS
from needlefish.cli.demo.stage import Stage, Step, show_ending, show_opening, show_step
from needlefish.cli.demo.write_steps import WRITE_STEPS
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import started_spark
from needlefish.runtime import SYSTEM

# In the order of the show.
STEPS: tuple[Step, ...] = (*WRITE_STEPS, *READ_STEPS, *CHANGE_STEPS, *SERVICE_STEPS, *LOOK_BACK_STEPS)

# Fewer rows than this make days without a single one.
_LEAST_ROWS = 100
# Wide enough for every table of the demo, and narrow enough to read where there is no terminal to ask.
_WIDTH = 110

Directory = Annotated[
    str, typer.Argument(metavar="[DIR]", help="Where to put the table; a former demo there is replaced, anything else is not.")
]
Rows = Annotated[int, typer.Option("--rows", min=_LEAST_ROWS, help="How many rows to make.")]


def demo(directory: Directory = DEFAULT, rows: Rows = 200_000, as_json: given.AsJson = False) -> None:
    """Build a table of web requests with Spark, read it back, replace and delete rows, tidy up, and look at what that cost."""
    started = SYSTEM.clock.monotonic()
    place = cleared(directory)
    console = _console(quiet=as_json)
    show_opening(console, rows)
    stage = Stage(console=console, uri=str(place / "requests"), spark=started_spark(quiet=as_json), rows=rows, quiet=as_json)
    reports = [_run(number, step, stage) for number, step in enumerate(STEPS, 1)]
    seconds = SYSTEM.clock.monotonic() - started
    if as_json:
        print_json({"table": stage.uri, "rows": rows, "seconds": round(seconds, 3), "steps": reports})
        return
    show_ending(stage, seconds)


def _run(number: int, step: Step, stage: Stage) -> dict[str, object]:
    show_step(stage.console, number, step)
    before = SYSTEM.clock.monotonic()
    facts = step.run(stage)
    return {"title": step.title, "seconds": round(SYSTEM.clock.monotonic() - before, 3), **facts}


def _console(*, quiet: bool) -> Console:
    if quiet:
        return Console(quiet=True)
    console = stdout_console()
    return console if on_terminal() and console.width < _WIDTH else Console(width=_WIDTH, highlight=False)
