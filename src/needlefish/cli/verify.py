"""`needlefish verify`: whether everything that a table says of itself is true."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.human import bytes_text, counted, seconds_text
from needlefish.cli.json_output import print_json
from needlefish.cli.progress import shown
from needlefish.errors import CorruptError
from needlefish.table.verify import Problem, Verification

# A screenful; --json has more.
_SHOWN = 50

NoData = Annotated[bool, typer.Option("--no-data", metavar="", help="Read no rows: check the log, the runs and the footers alone.")]


def verify(
    uri: given.Uri,
    no_data: NoData = False,
    version: given.Version = None,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Compare the log, every run and every file of a table with each other, without Spark.

    Each damaged object is named, with its remedy. The exit code is 10 if anything is wrong.
    """
    table = given.open_table(uri, option, version)
    with shown("verifying", quiet=as_json):
        found = table.verify(data=not no_data)
    if as_json:
        print_json(asdict(found) | {"ok": found.ok})
    else:
        _print(found)
    if not found.ok:
        raise typer.Exit(CorruptError.exit_code)


def _print(found: Verification) -> None:
    console = stdout_console()
    for line in (
        *_lines("problem", "bold red", found.problems, found.problem_count),
        *_lines("note", "cyan", found.notes, found.note_count),
    ):
        console.print(line, soft_wrap=True)
    console.print(_summary(found), soft_wrap=True)


def _lines(word: str, style: str, problems: Sequence[Problem], count: int) -> list[Text]:
    lines = [Text.assemble((f"{word}: ", style), f"{problem.object}: {problem.what}; {problem.remedy}") for problem in problems[:_SHOWN]]
    left = count - len(lines)
    return [*lines, Text(f"… and {counted(left, f'more {word}')}")] if left else lines


def _summary(found: Verification) -> Text:
    looked_at = ", ".join(
        (
            counted(found.versions, "log entry"),
            counted(found.runs, "run"),
            counted(found.files, "file"),
            f"{counted(found.rows, 'row')}{'' if found.data_read else ' (not read)'}",
            bytes_text(found.bytes),
        )
    )
    verdict = ("sound", "bold green") if found.ok else (counted(found.problem_count, "problem"), "bold red")
    return Text.assemble(f"version {found.version}: ", verdict, f" in {looked_at}, in {seconds_text(found.seconds)}")
