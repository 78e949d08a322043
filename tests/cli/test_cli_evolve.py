"""`needlefish evolve`: columns change from the command line, and what is wrong is said in one line."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def columns(description: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(column["name"], column["type"], column["field_id"]) for column in description["columns"]]


def test_every_change_in_one_line(cli: Run, table: str) -> None:
    found = cli(
        "evolve", table, "--add", "extra string, flag boolean", "--add", "`odd name` list<int32>", "--drop", "note", "--rename", "n = number",
        "--widen", "price=decimal(12,2)", "--reorder", "id,number", "--json",
    ).json  # fmt: skip
    assert found["version"] == 3
    assert columns(found) == [
        ("id", "string", 1),
        ("number", "int64", 3),
        ("ts", "timestamp", 2),
        ("price", "decimal(12,2)", 4),
        ("extra", "string", 6),
        ("flag", "boolean", 7),
        ("odd name", "list<int32>", 8),
    ]
    row = cli("scan", table, "--where", "number = 7", "--json").json_lines[0]
    assert (row["id"], row["price"], row["extra"]) == ("k007", "7.50", None)
    assert [entry["action"] for entry in cli("history", table, "--json").json] == ["evolve", "append", "append", "create"]
    old = cli("describe", table, "--version", "2", "--json").json
    assert [column["name"] for column in old["columns"]] == ["id", "ts", "n", "price", "note"]


def test_people_see_the_new_columns(cli: Run, table: str) -> None:
    out = cli("evolve", table, "--add", "extra string").out
    assert "extra" in out
    assert "version" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "evolve has nothing to change"),
        (["--drop", "id"], "drop names column 'id', which is part of the key"),
        (["--drop", "ts"], "what the partitions are computed from"),
        (["--add", "x"], "expected a type name"),
        (["--add", "x string not null"], "leave out 'not null'"),
        (["--add", "x string", "--add", "x int32"], "--add names column 'x' twice"),
        (["--rename", "n"], "--rename is 'n'; write it as NAME=VALUE"),
        (["--rename", "n=a", "--rename", "n=b"], "--rename names column 'n' twice"),
        (["--widen", "n=int32"], "widen['n'] is 'int32'"),
        (["--widen", "n=wide"], "there is no type 'wide'"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(attempt: Run, cli: Run, table: str, arguments: list[str], words: str) -> None:
    outcome = attempt("evolve", table, *arguments, "--json")
    error = json.loads(outcome.err)
    assert (outcome.code, error["error"]) == (2, "InvalidError")
    assert words in error["message"]
    assert cli("describe", table, "--json").json["version"] == 2
