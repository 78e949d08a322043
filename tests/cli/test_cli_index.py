"""Point indexes on the command line: declared, made later, described, advised, dropped, and what is said of wrong texts."""

from collections.abc import Callable
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.store import open_store
from needlefish.table.point.declare import PointIndex
from needlefish.testing.tables import build_table

Run = Callable[..., Any]

SCHEMA = "id string, user int64, host string, ok boolean"


@pytest.fixture
def indexed(uri: str) -> str:
    """200 rows, the key and the user indexed."""
    rows = [{"id": f"k{number:03}", "user": number % 50, "host": f"h{number % 3}", "ok": True} for number in range(200)]
    indexes = [PointIndex("id"), PointIndex("user", kind="cuckoo", granularity="file", name="by-user")]
    build_table(open_store(StoreConfig(uri=uri)), SCHEMA, "id", rows, indexes=indexes, properties={"granule_rows": 10, "chunkset_rows": 40})
    return uri


def create(run: Run, uri: str, *arguments: str) -> Any:
    return run("create", uri, "--schema", SCHEMA, "--key", "id", *arguments)


def indexes_of(run: Run, uri: str) -> list[Any]:
    return [
        tuple(found[name] for name in ("name", "columns", "kind", "granularity"))
        for found in run("describe", uri, "--json").json["point_indexes"]
    ]


def test_the_key_has_an_index_unless_none_is_wanted(cli: Run, uri: str) -> None:
    create(cli, uri)
    assert indexes_of(cli, uri) == [("id", ["id"], "postings", "row_group")]
    create(cli, uri + "-none", "--index", "none")
    assert indexes_of(cli, uri + "-none") == []


def test_create_takes_indexes_with_their_settings(cli: Run, uri: str) -> None:
    made = create(
        cli, uri, "--index", "user kind=cuckoo bits=12 buckets=500 name=users", "--index", "host,user granularity=file false_reads=2.5", "--json"
    ).json  # fmt: skip
    assert indexes_of(cli, uri) == [
        ("id", ["id"], "postings", "row_group"),
        ("users", ["user"], "cuckoo", "row_group"),
        ("host-user", ["host", "user"], "postings", "file"),
    ]
    assert made["point_indexes"][2]["false_reads"] == 2.5
    assert (made["point_indexes"][1]["runs"], made["point_indexes"][1]["keys"]) == (0, 0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--index is ''; begin with a column, such as 'user_id'"),
        (",", "--index is ','; begin with a column"),
        ("user kind", "--index is 'kind'; write it as NAME=VALUE"),
        ("user colour=red", "--index has colour=red, and there is no such setting; the names are kind, granularity, false_reads"),
        ("user bits=many", "--index has bits=many, which is no number; write it as in bits=16"),
        ("user kind=tree", "PointIndex has kind 'tree'; choose one of postings, cuckoo"),
        ("user granularity=row", "PointIndex has granularity 'row'; choose one of row_group, file"),
        ("user kind=cuckoo bits=13", "PointIndex has bits 13; choose one of 8, 12, 16, 24, 32"),
        ("user bits=16", "PointIndex has bits or buckets, which are of kind='cuckoo'"),
        ("user false_reads=0", "PointIndex has false_reads 0.0; give a number of granules a find"),
        ("user false_reads=nan", "PointIndex has false_reads nan; give a number of granules a find"),
        ("user expected_keys=-1", "PointIndex has expected_keys -1; give a whole number from 1"),
        ("user kind=cuckoo buckets=0", "PointIndex has buckets 0; give a whole number from 1"),
        ("user name=../x", "PointIndex has name '../x'; give up to 100 letters"),
        ("nobody", "PointIndex names column 'nobody', which the table does not have"),
        ("ok", "PointIndex names column 'ok' of type boolean; such values cannot be indexed"),
        ("user,user", "PointIndex names a column twice: user, user; name each once"),
        ("user name=id", "indexes has the name 'id' twice; give one of them another name="),
    ],
)
def test_wrong_texts_are_named_and_nothing_is_made(attempt: Run, uri: str, text: str, words: str) -> None:
    outcome = create(attempt, uri, "--index", text)
    assert outcome.code == 2
    assert words in outcome.err.replace("\n", " ")
    assert attempt("describe", uri).code != 0


def test_describe_shows_every_index(cli: Run, indexed: str) -> None:
    lines = [line.split() for line in cli("describe", indexed).out.splitlines()]
    (key,) = (line for line in lines if line[:3] == ["id", "id", "postings"])
    (user,) = (line for line in lines if line[:3] == ["by-user", "user", "cuckoo,"])
    assert key[3:5] == ["1", "200"]
    assert user[3:7] == ["by", "file", "1", "200"]
    assert key[-1] == user[-1] == "0", "all files are covered"
    described = {found["name"]: found for found in cli("describe", indexed, "--json").json["point_indexes"]}
    assert described["id"]["keys"] == 200
    assert described["id"]["bits_per_key"] == pytest.approx(8 * described["id"]["bytes"] / 200)
    assert 0 < described["id"]["expected_false_reads"] < described["id"]["false_reads"] == 0.1
    assert described["by-user"]["uncovered_files"] == 0


def test_find_says_which_index_it_asked(cli: Run, indexed: str) -> None:
    *rows, last = cli("find", indexed, "user=7", "--json", "--receipt").json_lines
    assert (len(rows), last["receipt"]["index"]) == (4, "cuckoo 'by-user', 1 run")
    assert "postings 'id', 1 run" in cli("find", indexed, "id=k001", "--receipt").err


def test_advise_shows_each_kind_and_what_is_there(cli: Run, attempt: Run, indexed: str) -> None:
    lines = cli("advise", indexed, "user").out.splitlines()
    assert lines[0].startswith("user: ")
    assert lines[1].split()[:3] == ["kind", "by", "width"]
    assert [line.split()[0] for line in lines[2:]] == ["postings"] * 6 + ["cuckoo"] * 6 + ["by-user"]
    assert "measured" in lines[-1]
    advice = cli("advise", indexed, "host,user", "--json").json
    assert (advice["columns"], advice["rows"], advice["keys"]) == (["host", "user"], 200, 200)
    assert {forecast["kind"] for forecast in advice["forecasts"]} == {"postings", "cuckoo"}
    assert all(forecast["measured"] is None for forecast in advice["forecasts"])
    for column, words in (("nobody", "names column 'nobody'"), ("ok", "of type boolean")):
        refused = attempt("advise", indexed, column)
        assert refused.code == 2
        assert words in refused.err


@pytest.mark.usefixtures("spark")
def test_create_index_of_rows_that_are_there_and_drop_it(cli: Run, attempt: Run, indexed: str) -> None:
    made = cli("create-index", indexed, "host false_reads=0.5", "--json").json
    assert (made["version"], made["index"], made["keys"], made["files"], made["uncovered"]) == (3, "host", 60, 5, 0)
    assert made["bits_per_key"] == pytest.approx(8 * made["bytes"] / 60)
    last = cli("find", indexed, "host=h1", "--json", "--receipt").json_lines[-1]
    assert (last["receipt"]["index"], last["receipt"]["rows_returned"]) == ("postings 'host', 1 run", 67)
    again = attempt("create-index", indexed, "host false_reads=0.5")
    assert again.code == 2
    assert "the point index 'host' already; rebuild('index/host') makes it anew" in again.err.replace("\n", " ")
    other = attempt("create-index", indexed, "user name=host")
    assert other.code == 2
    assert "named 'host' already; drop it first" in other.err.replace("\n", " ")
    rebuilt = cli("rebuild", indexed, "index/host", "--json").json
    assert (rebuilt["version"], rebuilt["files"], rebuilt["runs_added"], rebuilt["runs_removed"]) == (5, 5, 1, 1)
    assert cli("drop-index", indexed, "host", "--json").json == {"version": 6, "dropped": "host"}
    assert [found[0] for found in indexes_of(cli, indexed)] == ["id", "by-user"]
    assert cli("history", indexed, "--json").json[0]["action"] == "drop_index"


@pytest.mark.usefixtures("spark")
def test_create_index_says_what_it_did(cli: Run, indexed: str) -> None:
    out = cli("create-index", indexed, "host,user").out
    assert out.startswith("version 3: index host-user of 200 keys in 5 files, ")
    assert cli("drop-index", indexed, "host-user").out == "version 4: index host-user dropped\n"


def test_drop_index_names_those_there_are(attempt: Run, indexed: str, cli: Run) -> None:
    refused = attempt("drop-index", indexed, "nothing")
    assert refused.code == 2
    assert "name is 'nothing', and there is no such point index; the table has id, by-user" in refused.err.replace("\n", " ")
    assert cli("drop-index", indexed, "id").out == "version 2: index id dropped\n"
    assert cli("find", indexed, "id=k007", "--json").json_lines[0]["user"] == 7


@pytest.mark.parametrize("text", ["", "user colour=red"])
def test_create_index_refuses_wrong_texts_before_anything_starts(attempt: Run, indexed: str, text: str) -> None:
    refused = attempt("create-index", indexed, text)
    assert refused.code == 2
    assert refused.err.count("INDEX") == 1
