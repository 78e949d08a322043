"""The `needlefish` command: its subcommands, and what happens to their errors."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from needlefish.cli.adopt import adopt
from needlefish.cli.advise import advise
from needlefish.cli.append import append
from needlefish.cli.bloom import bloom
from needlefish.cli.cancel import cancel
from needlefish.cli.clean import clean
from needlefish.cli.cluster import cluster
from needlefish.cli.compact import compact
from needlefish.cli.complaint import complain
from needlefish.cli.create import create
from needlefish.cli.create_index import create_index
from needlefish.cli.delete import delete
from needlefish.cli.demo.command import demo
from needlefish.cli.describe import describe
from needlefish.cli.drop_index import drop_index
from needlefish.cli.erase import erase
from needlefish.cli.evolve import evolve
from needlefish.cli.execute import execute
from needlefish.cli.find import find
from needlefish.cli.history import history
from needlefish.cli.plans import plans
from needlefish.cli.rebuild import rebuild
from needlefish.cli.scan import scan
from needlefish.cli.tend import tend
from needlefish.cli.upsert import upsert
from needlefish.cli.verify import verify
from needlefish.errors import NeedlefishError
from needlefish.version import __version__

_COMMANDS = (
    *(demo, create, append, upsert, delete, find, scan, describe, evolve, history),
    *(plans, compact, cluster, execute, cancel, clean, erase, tend),
    *(verify, rebuild, adopt, create_index, drop_index, advise, bloom),
)

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]}
)
for _command in _COMMANDS:
    app.command()(_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"needlefish {__version__}")
        raise typer.Exit


@app.callback()
def needlefish(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_show_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Find the needle in a data lake: a keyed table of plain Parquet files on any object store.

    A table is a URI: a local path, [bold]s3://[/], [bold]gs://[/] or [bold]az://[/]. Reading needs no Java; writing runs on Spark.
    New here? Start with [bold]needlefish demo[/].
    """


def main() -> None:
    """The entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code."""
    as_json = "--json" in arguments
    try:
        # Typer words and frames its own errors, unless a program is listening.
        code = app(list(arguments), prog_name="needlefish", standalone_mode=not as_json)
        sys.stdout.flush()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 1
    except BrokenPipeError:
        return _stop_talking()
    except (NeedlefishError, TyperException) as error:
        complain(error, as_json=as_json)
        return error.exit_code
    return code or 0


def _stop_talking() -> int:
    """Whoever read our output has left; what is still buffered must not raise once more when Python shuts down."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
