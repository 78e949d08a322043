"""`needlefish find`: which rows, in which form, and what the receipt says."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.store import open_store
from needlefish.testing.tables import build_table

Run = Callable[..., Any]


def ids(outcome: Any) -> list[str]:
    return sorted(line["id"] for line in outcome.json_lines)


def test_json_is_one_object_per_line_with_exact_values(cli: Run, table: str) -> None:
    outcome = cli("find", table, "id=k020", "--json")
    assert outcome.json_lines == [{"id": "k020", "ts": "2026-11-02T12:00:00Z", "n": 20, "price": "20.50", "note": 'a "b", c'}]


def test_a_pipe_gets_csv(cli: Run, table: str) -> None:
    outcome = cli("find", table, "id=k021", "--columns", "n,id,note")
    assert outcome.out == "n,id,note\n21,k021,\n"
    assert outcome.err == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["id=k007"], ["k007"]),
        (["id=k007", "id=k080", "id=nobody"], ["k007", "k080"]),
        (["n=42"], ["k042"]),
        (["n=42", "id=k042"], ["k042"]),
        (["n=42", "id=k043"], []),
        (["price=3.5"], ["k003"]),
        (["id=nobody"], []),
        (["id=k080", "--version", "1"], []),
    ],
)
def test_rows_are_found_by_values_of_their_types(cli: Run, table: str, arguments: list[str], expected: list[str]) -> None:
    assert ids(cli("find", table, "--json", *arguments)) == expected


def test_every_type_is_read_from_text(cli: Run, uri: str) -> None:
    row = {"k": "a=b", "f": 0.5, "b": True, "d": date(2026, 11, 1), "x": b"\x00\xff"}
    other = {"k": "", "f": 1.5, "b": False, "d": None, "x": b""}
    build_table(open_store(StoreConfig(uri=uri)), "k string, f double, b boolean, d date, x binary", "k", [row, other])
    for text in ("k=a=b", "f=5e-1", "b=TRUE", "d=2026-11-01", "x=00ff"):
        assert [line["k"] for line in cli("find", uri, text, "--json").json_lines] == ["a=b"], text
    assert [line["f"] for line in cli("find", uri, "k=", "--json").json_lines] == [1.5]


def test_the_receipt_is_the_last_line(cli: Run, table: str) -> None:
    *rows, last = cli("find", table, "id=k020", "--json", "--receipt").json_lines
    receipt = last["receipt"]
    assert len(rows) == 1
    assert (receipt["values"], receipt["rows_returned"], receipt["granules_read"]) == (1, 1, 1)
    levels = {level["name"]: level for level in receipt["levels"]}
    assert list(levels) == ["index", "files", "ranges", "filters", "data"]
    assert (levels["files"]["files_in"], levels["data"]["files_in"], levels["data"]["files_out"]) == (9, 1, 1)
    assert receipt["requests"] == sum(level["requests"] for level in levels.values()) > 0


def test_an_absent_key_opens_no_file(cli: Run, table: str) -> None:
    (last,) = cli("find", table, "id=k020x", "--json", "--receipt").json_lines
    data = last["receipt"]["levels"][-1]
    assert (data["name"], data["files_in"], data["requests"]) == ("data", 0, 0)


def test_a_pipe_gets_the_receipt_on_stderr(cli: Run, table: str) -> None:
    outcome = cli("find", table, "id=k020", "--receipt")
    assert len(outcome.out.splitlines()) == 2
    assert "rows" in outcome.err
    assert "1 of 5 decoded" in outcome.err


def test_the_receipt_names_what_could_not_be_read(cli: Run, table: str) -> None:
    runs = sorted(Path(table, "_needlefish/metadata/bloom_filters").iterdir())
    runs[0].unlink()
    outcome = cli("find", table, "id=k020", "id=k080", "--receipt")
    assert len(outcome.out.splitlines()) == 3
    assert f"not read: _needlefish/metadata/bloom_filters/{runs[0].name}" in outcome.err.replace("\n", "")


def test_a_terminal_gets_a_table_and_the_levels(cli: Run, table: str, terminal: Run) -> None:
    with terminal(100):
        lines = cli("find", table, "id=k020").out.splitlines()
    assert lines[0].split() == ["id", "ts", "n", "price", "note"]
    assert lines[1].startswith("k020")
    assert "1 row" in lines
    assert [line.split()[0] for line in lines[-4:]] == ["files", "ranges", "filters", "data"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["k020"], "COLUMN=VALUE is 'k020'; write it as NAME=VALUE"),
        (["nothing=1"], "names column 'nothing', which the table does not have"),
        (["n=x"], "n=… is 'x', which is no value of type int64"),
        (["n=1", "n=2", "id=a"], "list for 'n' beside other columns"),
        (["id=a", "--columns", "nope"], "columns names column 'nope'"),
        (["id=a", "--columns", ","], "name at least one column"),
    ],
)
def test_what_is_wrong_is_named(attempt: Run, table: str, arguments: list[str], words: str) -> None:
    outcome = attempt("find", table, *arguments)
    assert outcome.code == 2
    assert words in outcome.err


def test_something_to_look_for_must_be_given(attempt: Run, table: str) -> None:
    assert attempt("find", table).code == 2
