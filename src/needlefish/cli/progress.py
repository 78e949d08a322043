"""Long work on a terminal: a spinner, what is being done, Spark's tasks and the time so far. In a pipe, nothing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from needlefish.api import spark_session
from needlefish.cli.console import on_terminal, stdout_console

if TYPE_CHECKING:
    from needlefish.spark.names import SparkSession


class _Jobs(Protocol):
    def tasks(self) -> tuple[int, int] | None: ...


class _SparkTasks(ProgressColumn):
    """Asked from Rich's refresh thread, a few times a second."""

    max_refresh = 0.5

    def __init__(self, jobs: _Jobs | None) -> None:
        super().__init__()
        self._jobs = jobs

    def render(self, task: Task) -> Text:
        counts = self._jobs.tasks() if self._jobs else None
        return Text("" if counts is None else f"{counts[0]}/{counts[1]} tasks", style="cyan")


@contextmanager
def shown(what: str, spark: "SparkSession | None" = None, *, quiet: bool = False) -> Iterator[None]:
    """Shows that `what` is being done while the body runs, and leaves no trace of it."""
    if quiet or not on_terminal():
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), _SparkTasks(_jobs(spark)), TimeElapsedColumn())
    # On stdout: while a JVM starts, stderr belongs to it.
    with Progress(*columns, console=stdout_console(), transient=True) as progress:
        progress.add_task(what, total=None)
        yield


def started_spark(*, quiet: bool = False) -> "SparkSession":
    """A session, with a sign of life while it starts."""
    if not logging.root.handlers:
        # On an interrupt py4j logs the tracebacks of its torn connections to the root logger, which would print them.
        logging.root.addHandler(logging.NullHandler())
    with shown("starting Spark", quiet=quiet):
        return spark_session()


def _jobs(spark: "SparkSession | None") -> _Jobs | None:
    if spark is None:
        return None
    from needlefish.spark.progress import JobProgress

    return JobProgress(spark)
