"""`needlefish append`: files of every kind through Spark, and what is refused with the table untouched."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.usefixtures("spark")

Run = Callable[..., Any]

SCHEMA = "id string, at timestamp, n int32, price decimal(8,2), note string"
HEADER = "id,at,n,price,note\n"


@pytest.fixture
def target(cli: Run, uri: str) -> str:
    cli("create", uri, "--schema", SCHEMA, "--key", "id")
    return uri


def rows_of(cli: Run, uri: str) -> list[dict[str, Any]]:
    return sorted(cli("scan", uri, "--json").json_lines, key=lambda row: row["id"])


def test_csv_in_any_column_order_with_quotes_nulls_and_empty_texts(cli: Run, target: str, tmp_path: Path) -> None:
    file = tmp_path / "odd {name}* 50%.csv"
    file.write_text('note,id,n,at,price\n"say ""a"", b",k1,7,2026-11-01T12:00:00Z,1.50\n"",k2,,2026-11-01 12:00:00,\n,k3,-1,,0.01\n')
    result = cli("append", target, str(file), "--json").json
    assert (result["version"], result["rows"], result["files"]) == (2, 3, 1)
    assert rows_of(cli, target) == [
        {"id": "k1", "at": "2026-11-01T12:00:00Z", "n": 7, "price": "1.50", "note": 'say "a", b'},
        {"id": "k2", "at": "2026-11-01T12:00:00Z", "n": None, "price": None, "note": ""},
        {"id": "k3", "at": None, "n": -1, "price": "0.01", "note": None},
    ]


def test_what_scan_prints_append_reads_back(cli: Run, target: str, tmp_path: Path) -> None:
    """Both forms, line breaks and all."""
    note = 'line one\nline "two", and\\more '
    (tmp_path / "first.json").write_text(
        json.dumps([{"id": "a", "note": note, "n": 1, "at": "2026-11-01T00:00:00.000001Z"}, {"id": "b", "price": "2.25", "note": ""}])
    )
    cli("append", target, str(tmp_path / "first.json"), "--multiline")
    (tmp_path / "again.csv").write_text(cli("scan", target).out)
    (tmp_path / "again.jsonl").write_text(cli("scan", target, "--json").out)
    for file, copy in (("again.csv", target + "-csv"), ("again.jsonl", target + "-json")):
        cli("create", copy, "--schema", SCHEMA, "--key", "id")
        cli("append", copy, str(tmp_path / file), *(["--multiline"] if file.endswith("csv") else []))
        assert rows_of(cli, copy) == rows_of(cli, target)
    assert rows_of(cli, target)[0]["note"] == note


def test_a_pattern_of_packed_json_lines(cli: Run, target: str, tmp_path: Path) -> None:
    for number in range(3):
        with gzip.open(tmp_path / f"part-{number}.json.gz", "wt") as file:
            file.write(f'{{"id": "k{number}", "n": {number}}}\n')
    out = cli("append", target, str(tmp_path / "part-*.json.gz")).out
    assert out.startswith("version 2: 3 rows in 1 file, ")
    assert [(row["id"], row["n"]) for row in rows_of(cli, target)] == [("k0", 0), ("k1", 1), ("k2", 2)]


def test_a_directory_of_parquet_files_whose_columns_differ(cli: Run, target: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": ["a"], "n": pa.array([1], pa.int32())}), folder / "1.parquet")
    moment = pa.array([datetime(2026, 11, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": ["b"], "at": moment}), folder / "2.parquet")
    (folder / "_SUCCESS").touch()
    cli("append", target, str(folder))
    assert [(row["id"], row["n"], row["at"]) for row in rows_of(cli, target)] == [("a", 1, None), ("b", None, "2026-11-01T00:00:00Z")]


def test_no_rows_change_nothing(cli: Run, target: str, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").write_text(HEADER)
    assert cli("append", target, str(tmp_path / "empty.csv")).out == "no rows: nothing was changed, the table is at version 2\n"
    assert [entry["action"] for entry in cli("history", target, "--json").json] == ["create"]


REFUSED = {
    "a cell that does not fit": ("x.csv", HEADER + "k1,2026-11-01T00:00:00Z,many,,\n", 'x.csv has a row that does not fit the table\'s columns: [k1,'),
    "a number beyond its type": ("x.csv", HEADER + "k1,,3000000000,,\n", "3000000000"),
    "a row cut short": ("x.csv", HEADER + "k1,2026\n", "x.csv has a row that does not fit"),
    "a column of another name": ("x.csv", "id,colour\nk1,red\n", "the files have column 'colour', which the table does not have"),
    "a JSON value that does not fit": ("x.json", '{"id": "k1", "n": "many"}\n', "x.json has a row that does not fit"),
    "a JSON field of another name": ("x.json", '{"id": "k1", "colour": "red"}\n', "the files have column 'colour'"),
    "broken JSON": ("x.json", '{"id": "k1"}\n{"id":\n', "row that does not fit"),
    "no Parquet": ("x.parquet", "id\n", "x.parquet is no Parquet file"),
    "no key": ("x.csv", HEADER + ",,1,,\n", "null in key column 'id'"),
    "the same key twice": ("x.csv", HEADER + "k1,,1,,\nk1,,2,,\n", "k1"),
    "a key column left out": ("x.csv", "n\n1\n", "df lacks column 'id'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_table_untouched(attempt: Run, cli: Run, target: str, tmp_path: Path, name: str) -> None:
    file, content, words = REFUSED[name]
    (tmp_path / file).write_text(content)
    outcome = attempt("append", target, str(tmp_path / file), "--json")
    error = json.loads(outcome.err)
    assert (outcome.code, error["error"], outcome.out) == (2, "InvalidError", "")
    assert words in error["message"]
    assert len(error["message"].splitlines()) == 1
    assert [entry["action"] for entry in cli("history", target, "--json").json] == ["create"]


def test_csv_files_with_different_headers_are_told_apart(attempt: Run, target: str, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,n\na,1\n")
    (tmp_path / "2.csv").write_text("n,id\n2,b\n")
    outcome = attempt("append", target, str(tmp_path / "1.csv"), str(tmp_path / "2.csv"))
    assert outcome.code == 2
    assert "append files with different columns one by one" in outcome.err


def test_files_of_several_kinds_are_refused_before_spark(attempt: Run, target: str, tmp_path: Path) -> None:
    for name in ("a.csv", "b.json"):
        (tmp_path / name).touch()
    outcome = attempt("append", target, str(tmp_path / "a.csv"), str(tmp_path / "b.json"))
    assert outcome.code == 2
    assert "several kinds" in outcome.err


def test_nested_columns_come_in_json_but_not_in_csv(attempt: Run, cli: Run, uri: str, tmp_path: Path) -> None:
    cli("create", uri, "--schema", "id int64, tags list<string>, at struct<lat:double,lon:double>", "--key", "id")
    (tmp_path / "x.csv").write_text("id,tags\n1,a\n")
    assert "CSV cannot carry column 'tags'" in attempt("append", uri, str(tmp_path / "x.csv")).err
    (tmp_path / "x.json").write_text('{"id": 1, "tags": ["a", null], "at": {"lat": 1.5, "lon": 2.5}}\n')
    cli("append", uri, str(tmp_path / "x.json"))
    assert cli("scan", uri, "--json").json_lines == [{"id": 1, "tags": ["a", None], "at": {"lat": 1.5, "lon": 2.5}}]


def test_progress_shows_on_a_terminal_and_leaves_the_result(cli: Run, target: str, tmp_path: Path, terminal: Run) -> None:
    (tmp_path / "x.csv").write_text(HEADER + "k1,,1,,\n")
    with terminal(100):
        out = cli("append", target, str(tmp_path / "x.csv")).out
    assert "appending 1 input" in out
    assert "version 2: 1 row in 1 file, " in out.splitlines()[-1]
