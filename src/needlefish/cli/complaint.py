"""Errors as users see them: one message on stderr, never a traceback."""

import sys

import msgspec
from rich.text import Text
from typer.exceptions import TyperException

from needlefish.cli.console import stderr_console
from needlefish.errors import InvalidError, NeedlefishError


def complain(error: NeedlefishError | TyperException, *, as_json: bool) -> None:
    """Says what went wrong: for a person, or as an object for a program."""
    # What Typer refuses is a wrong call like any other; its own class names mean nothing outside.
    wrong_call = isinstance(error, TyperException)
    message = error.format_message() if isinstance(error, TyperException) else str(error)
    if as_json:
        name = InvalidError.__name__ if wrong_call else type(error).__name__
        sys.stderr.write(msgspec.json.encode({"error": name, "message": message}).decode() + "\n")
        return
    # soft_wrap: the terminal breaks the line, so that a path in it can still be copied whole.
    stderr_console().print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True, highlight=False)
