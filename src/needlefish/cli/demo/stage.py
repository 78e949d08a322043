"""What every step of the demo works with, and the frame around each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from needlefish.api import Table
from needlefish.cli.demo.requests import DAYS, request_id
from needlefish.cli.human import counted, seconds_text

if TYPE_CHECKING:
    from needlefish.spark.names import SparkSession

Facts = dict[str, object]


@dataclass(slots=True, kw_only=True)
class Stage:
    """The demo as it goes: steps leave things here for later ones."""

    console: Console
    uri: str
    spark: "SparkSession"
    rows: int
    quiet: bool
    made: Table | None = field(default=None)

    @property
    def table(self) -> Table:
        assert self.made is not None, "the first step creates the table"
        return self.made

    @property
    def needle(self) -> str:
        """The request that the demo looks for: somewhere in the middle of the days."""
        return request_id(self.rows // 2)

    @property
    def first_delivery(self) -> int:
        """The version that brought the first rows."""
        return min((entry.version for entry in self.table.history() if entry.action == "append"), default=0)

    def say(self, text: str) -> None:
        """A sentence about what was just seen."""
        self.console.print(Text("→ ", style="green") + Text.from_markup(text), style="default")

    def command(self, text: str) -> None:
        """How to do the same by hand."""
        self._by_hand("$", text)

    def python(self, text: str) -> None:
        self._by_hand(">>>", text)

    def _by_hand(self, prompt: str, text: str) -> None:
        # soft_wrap: the terminal breaks the line, so that it can be copied whole.
        self.console.print(Text.assemble((f"{prompt} ", "green"), (text, "bold")), soft_wrap=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One scene: a title, a sentence or two before it, and what happens. The facts go into `--json`."""

    title: str
    text: str
    run: Callable[[Stage], Facts]


def show_opening(console: Console, rows: int) -> None:
    text = f"{counted(rows, 'web request')} of {len(DAYS)} days, kept as plain Parquet files.\nSpark writes them, and no Java is needed to read them."
    console.print(Panel(text, title="[bold]Needlefish[/]", border_style="cyan", padding=(1, 2), expand=False))


def show_step(console: Console, number: int, step: Step) -> None:
    console.print()
    console.print(Rule(f"[bold cyan]{number}[/]  [bold]{step.title}[/]", align="left", style="cyan"))
    console.print(step.text, style="dim")
    console.print()


def show_ending(stage: Stage, seconds: float) -> None:
    lines = (
        f"needlefish scan {stage.uri} --where \"status = 503 and host = 'eu-1'\"",
        f"needlefish scan {stage.uri} --partition day={DAYS[-1]} --columns ts,path,latency_ms --limit 5",
        f"needlefish find {stage.uri} user_id=7 --receipt",
        f"needlefish verify {stage.uri}",
        f"needlefish describe {stage.uri} --version {stage.first_delivery}",
    )
    console = stage.console
    console.print()
    console.print(Rule(f"[bold]Done in {seconds_text(seconds)}.[/] Try next", align="left", style="cyan"))
    for line in lines:
        stage.command(line)
