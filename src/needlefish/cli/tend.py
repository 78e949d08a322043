"""`needlefish tend`: a loop that keeps tables tidy."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from needlefish.api.worker import worker_for
from needlefish.cli import arguments as given
from needlefish.cli.console import stdout_console
from needlefish.cli.duration import seconds_from
from needlefish.cli.json_output import json_text
from needlefish.cli.progress import shown, started_spark
from needlefish.cli.signals import Signals
from needlefish.cli.tend_text import event_facts, event_line
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError, NeedlefishError
from needlefish.runtime import SYSTEM
from needlefish.services.stopping import Stop
from needlefish.services.tend import Event, TendedTable, TendOptions
from needlefish.services.tend import tend as tend_tables
from needlefish.store import RetriedStore, open_store

if TYPE_CHECKING:
    from needlefish.spark.names import SparkSession

Uris = Annotated[
    list[str], typer.Argument(metavar="URI...", help="The tables: local paths, or addresses such as s3://bucket/table.", show_default=False)
]
Every = Annotated[str, typer.Option("--every", metavar="DURATION", help="How often each table is looked at: 30s, 5m, 1h.")]
Once = Annotated[bool, typer.Option("--once", metavar="", help="One round, then leave; the exit code tells if a table failed.")]
Compact = Annotated[bool, typer.Option("--compact/--no-compact", help="Compact what is worth it.")]
ClusterBy = Annotated[
    list[str] | None,
    typer.Option("--cluster-by", metavar="A,B", help="Cluster new files by these columns.", show_default=False),
]
ZOrder = Annotated[bool, typer.Option("--zorder", metavar="", help="With --cluster-by: all columns count alike.")]
Clean = Annotated[bool, typer.Option("--clean/--no-clean", help="Remove what no readable version needs.")]
CleanEvery = Annotated[str, typer.Option("--clean-every", metavar="DURATION", help="How often; a clean lists objects.")]
Patience = Annotated[
    str, typer.Option("--patience", metavar="DURATION", help="After SIGTERM or Ctrl-C: how long the piece at hand may take to finish.")
]
LogFile = Annotated[str | None, typer.Option("--log", metavar="FILE", help="Append the lines to a file as well.", show_default=False)]


def tend(
    uris: Uris,
    every: Every = "60s",
    once: Once = False,
    compact: Compact = True,
    cluster_by: ClusterBy = None,
    zorder: ZOrder = False,
    clean: Clean = True,
    clean_every: CleanEvery = "1h",
    patience: Patience = "30s",
    log: LogFile = None,
    option: given.Options = None,
    as_json: given.AsJson = False,
) -> None:
    """Keep tables tidy: undo what dead workers left, execute plans that wait, compact, cluster, merge runs, clean.

    As many of these as you like may look after the same tables. SIGTERM or Ctrl-C ends it after the piece at hand, or when
    --patience is over: then the piece is undone. A second signal does that at once.
    """
    options = TendOptions(
        every_seconds=seconds_from(every, "--every"),
        compact=compact,
        cluster_by=tuple(given.names(cluster_by)),
        zorder=zorder,
        clean=clean,
        clean_every_seconds=seconds_from(clean_every, "--clean-every"),
    )
    _check(uris, options, option)
    stop = Stop(seconds_from(patience, "--patience"))
    signals = Signals(stop)
    with ExitStack() as kept:
        audience = _Teller(kept.enter_context(_opened(log)), as_json=as_json)
        worker = partial(worker_for, start_spark=lambda: _started(signals))
        kept.enter_context(signals.handled())
        tables = [TendedTable(_store(uri, option), options, worker, audience, stop) for uri in uris]
        tend_tables(tables, stop, options.every_seconds, once=once)
    failure = next((table.failure for table in tables if table.failure is not None), None)
    if once and failure is not None:
        raise typer.Exit(failure.exit_code if isinstance(failure, NeedlefishError) else 1)


def _check(uris: Sequence[str], options: TendOptions, option: Sequence[str] | None) -> None:
    """What is wrong with the call is said at once, rather than round after round."""
    if len(set(uris)) < len(uris):
        raise InvalidError("URI names a table twice; name each once")
    if options.zorder and not options.cluster_by:
        raise InvalidError("--zorder is given without --cluster-by; name the columns, or leave it out")
    if options.every_seconds <= 0:
        raise InvalidError("--every is 0; give a duration above zero, such as 60s")
    for uri in uris:
        schema = given.open_table(uri, option).schema
        unknown = next((name for name in options.cluster_by if name not in schema.names), None)
        if unknown is not None:
            raise InvalidError(f"--cluster-by names {unknown!r}, which {uri} does not have; it has {', '.join(schema.names)}")


def _store(uri: str, option: Sequence[str] | None) -> RetriedStore:
    return open_store(StoreConfig(uri=uri, options=given.storage_options(option)), SYSTEM)


def _started(signals: Signals) -> "SparkSession":
    try:
        return started_spark(quiet=True)
    finally:
        signals.install()


@contextmanager
def _opened(path: str | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    try:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise InvalidError(f"--log is {path!r}, which cannot be written: {error.strerror}; give another file") from error
    with file:
        yield file


class _Teller:
    """One line for each event, on stdout and in the log; on a terminal, what is being done as well."""

    def __init__(self, log: IO[str] | None, *, as_json: bool) -> None:
        self._log = log
        self._as_json = as_json
        self._console: Console = stdout_console()

    def tell(self, event: Event) -> None:
        line = json_text(event_facts(event)) if self._as_json else event_line(event)
        self._console.print(Text(line), soft_wrap=True)
        self._console.file.flush()
        if self._log is not None:
            self._log.write(line + "\n")
            self._log.flush()

    def doing(self, table: str, what: str) -> AbstractContextManager[None]:
        return shown(f"{table}: {what}", quiet=self._as_json)
