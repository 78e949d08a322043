"""Where output goes: a console that fits the terminal, or one without edges when a pipe or a file is at the other end."""

import os
import sys

from rich.console import Console

# Rich assumes 80 columns where there is no terminal and would cut cells that a program wants whole.
_NO_EDGE = 10_000


def stdout_console() -> Console:
    return Console(width=None if _has_width() else _NO_EDGE, highlight=False)


def stderr_console() -> Console:
    return Console(stderr=True, highlight=False)


def on_terminal() -> bool:
    """Whether a person is looking at what we print."""
    return sys.stdout.isatty()


def _has_width() -> bool:
    return on_terminal() or "COLUMNS" in os.environ
