"""`needlefish upsert` and `needlefish delete`: files through Spark, what they report, and what is refused with the table untouched."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from needlefish.cli.change_text import deleted, stages_text, upserted
from needlefish.table.upsert.result import DeleteResult, UpsertResult

pytestmark = pytest.mark.usefixtures("spark")

Run = Callable[..., Any]

SCHEMA = "id string, ts timestamp, n int64, note string"
STAGES = ["write", "compare", "commit"]


@pytest.fixture
def target(cli: Run, uri: str, tmp_path: Path) -> str:
    """Three rows of two days, as version 2."""
    cli("create", uri, "--schema", SCHEMA, "--key", "id", "--partition-by", "day(ts)")
    cli(
        "upsert", uri, rows(tmp_path, "first.csv", "a,2026-11-01T10:00:00Z,1,x", "b,2026-11-01T11:00:00Z,2,y", "c,2026-11-02T12:00:00Z,3,z")
    )
    return uri


def rows(folder: Path, name: str, *lines: str, header: str = "id,ts,n,note") -> str:
    (folder / name).write_text("\n".join([header, *lines]) + "\n")
    return str(folder / name)


def found(cli: Run, uri: str) -> dict[str, tuple[int | None, str | None]]:
    return {row["id"]: (row["n"], row["note"]) for row in cli("scan", uri, "--json").json_lines}


def test_new_rows_replaced_rows_late_rows_and_duplicates(cli: Run, target: str, tmp_path: Path) -> None:
    """`a` is replaced by the newest of its rows, `b` comes too late, `d` is new."""
    lines = (
        "a,2026-11-01T12:00:00Z,11,newest",
        "a,2026-11-01T11:00:00Z,10,older",
        "b,2026-11-01T09:00:00Z,20,late",
        "d,2026-11-02T00:00:00Z,4,new",
    )
    result = cli("upsert", target, rows(tmp_path, "x.csv", *lines), "--order-by", "ts", "--json").json
    counts = {name: result[name] for name in ("version", "inserted", "replaced", "late", "deleted", "duplicates", "repeated")}
    assert counts == {"version": 4, "inserted": 1, "replaced": 1, "late": 1, "deleted": 0, "duplicates": 1, "repeated": False}
    assert list(result["stages"]) == STAGES
    assert result["requests"] > 0
    assert found(cli, target) == {"a": (11, "newest"), "b": (2, "y"), "c": (3, "z"), "d": (4, "new")}
    history = cli("history", target, "--json").json
    assert [(entry["action"], entry["prev_max"], entry["skipped"]) for entry in history[:2]] == [("upsert", 3, 2), ("upsert", 1, 0)]


def test_without_an_order_the_last_row_of_the_files_counts(cli: Run, target: str, tmp_path: Path) -> None:
    out = cli("upsert", target, rows(tmp_path, "x.csv", "a,2026-11-01T01:00:00Z,8,one", "a,2026-11-01T00:00:00Z,9,two")).out
    sentence, cost = out.splitlines()
    assert sentence.startswith("version 4: 0 inserted, 1 replaced, 1 duplicate; 1 file, ")
    assert cost.startswith("write ")
    assert cost.endswith(" requests")
    assert found(cli, target)["a"] == (9, "two")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_deletes_among_the_rows(cli: Run, target: str, tmp_path: Path, form: str) -> None:
    """A mark that is null, or absent from an object, marks nothing."""
    if form == "csv":
        lines = ("a,2026-11-01T12:00:00Z,,,true", "b,2026-11-01T12:00:00Z,22,kept,", "nobody,2026-11-01T12:00:00Z,,,true")
        file = rows(tmp_path, "feed.csv", *lines, header="id,ts,n,note,gone")
    else:
        moment = {"ts": "2026-11-01T12:00:00Z"}
        objects = ({"id": "a", "gone": True}, {"id": "b", "n": 22, "note": "kept"}, {"id": "nobody", "gone": True})
        file = str(tmp_path / "feed.jsonl")
        Path(file).write_text("".join(json.dumps(one | moment) + "\n" for one in objects))
    result = cli("upsert", target, file, "--deleted-by", "gone", "--json").json
    assert (result["inserted"], result["replaced"], result["deleted"]) == (0, 1, 1)
    assert found(cli, target) == {"b": (22, "kept"), "c": (3, "z")}


def test_columns_that_the_files_lack_become_null_or_stay(cli: Run, target: str, tmp_path: Path) -> None:
    file = rows(tmp_path, "x.csv", "a,2026-11-01T12:00:00Z,7", header="id,ts,n")
    cli("upsert", target, file, "--columns", "present")
    assert found(cli, target)["a"] == (7, "x")
    cli("upsert", target, file)
    assert found(cli, target)["a"] == (7, None)


def test_a_batch_that_comes_again_does_nothing(cli: Run, target: str, tmp_path: Path) -> None:
    file = rows(tmp_path, "x.csv", "a,2026-11-01T12:00:00Z,7,x")
    assert cli("upsert", target, file, "--batch", "feed:eu:17", "--json").json["version"] == 4
    again = cli("upsert", target, file, "--batch", "feed:eu:17").out
    assert again == "this batch, or a later one of its name, is there already: nothing was done, the table is at version 4\n"
    assert cli("delete", target, "--where", "n = 7", "--batch", "feed:eu:16", "--json").json["repeated"]
    assert cli("describe", target, "--json").json["batches"] == {"feed:eu": 17}
    assert "feed:eu 17" in cli("history", target).out


def test_deleting_by_keys_and_by_condition(cli: Run, target: str, tmp_path: Path) -> None:
    keys = rows(tmp_path, "keys.csv", "a,2026-11-01T00:00:00Z", "nobody,2026-11-01T00:00:00Z", header="id,ts")
    result = cli("delete", target, "--keys", keys, "--json").json
    assert (result["version"], result["deleted"], result["absent"]) == (4, 1, 1)
    assert list(result["stages"]) == STAGES
    out = cli("delete", target, "--where", "n >= 3").out
    assert out.startswith("version 6: 1 row deleted, in ")
    assert found(cli, target) == {"b": (2, "y")}
    assert cli("delete", target, "--where", "n >= 3").out == "no rows: nothing was changed, the table is at version 8\n"
    assert cli("delete", target, "--keys", keys).out == "no rows, 2 absent: nothing was changed, the table is at version 10\n"
    described = cli("describe", target, "--json").json
    assert (described["rows"], described["skipped"], described["files"]) == (1, 2, 2)


REFUSED = {
    "no key": (["upsert"], "id,ts,n,note", ",2026-11-01T00:00:00Z,1,x", "null in key column 'id'"),
    "a column of another name": (["upsert"], "id,ts,colour", "a,2026-11-01T00:00:00Z,red", "the files have column 'colour'"),
    "a key column left out": (["upsert"], "ts,n", "2026-11-01T00:00:00Z,1", "df lacks column 'id'"),
    "a cell that does not fit": (["upsert"], "id,ts,n,note", "a,2026-11-01T00:00:00Z,many,x", "row that does not fit"),
    "a mark that is not there": (["upsert", "--deleted-by", "gone"], "id,ts,n,note", "a,2026-11-01T00:00:00Z,1,x", "deleted_by names column 'gone'"),
    "no partition": (["delete", "--keys"], "id", "a", "df lacks column 'ts'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_table_untouched(attempt: Run, cli: Run, target: str, tmp_path: Path, name: str) -> None:
    (command, *options), header, line, words = REFUSED[name]
    outcome = attempt(command, target, *options, rows(tmp_path, "x.csv", line, header=header), "--json")
    error = json.loads(outcome.err)
    assert (outcome.code, error["error"], outcome.out) == (2, "InvalidError", "")
    assert words in error["message"]
    assert [entry["action"] for entry in cli("history", target, "--json").json] == ["upsert", "create"]


def test_progress_shows_on_a_terminal_and_leaves_the_result(cli: Run, target: str, tmp_path: Path, terminal: Run) -> None:
    with terminal(100):
        out = cli("upsert", target, rows(tmp_path, "x.csv", "e,2026-11-01T12:00:00Z,7,x")).out
    assert "upserting 1 input" in out
    assert "version 4: 1 inserted, 0 replaced; 1 file, " in out.splitlines()[-2]


def test_what_is_told() -> None:
    """Counts of nothing are left out, rounds of healing are told."""
    stages = {"write": 2.0, "compare": 0.5, "commit": 0.02}
    result = UpsertResult(version=7, inserted=1_000, replaced=20, late=3, deleted=4, duplicates=2, files=2, bytes=2048, requests=90, healed=1, seconds=2.6, stages=stages)  # fmt: skip
    assert upserted(result).plain == (
        "version 7: 1,000 inserted, 20 replaced, 4 deleted, 3 late, 2 duplicates; 2 files, 2.0 KiB, in 2.6 s\n"
        "write 2.0 s, compare 500 ms, commit 20 ms; 90 requests, 1 round of comparing with other writers"
    )
    assert upserted(UpsertResult(version=7)).plain == "no rows: nothing was changed, the table is at version 7"
    assert deleted(DeleteResult(version=8, deleted=2, absent=1, requests=9, seconds=1.0, stages={"commit": 1.0})).plain == (
        "version 8: 2 rows deleted, 1 absent, in 1.0 s\ncommit 1.0 s; 9 requests"
    )
    assert stages_text({}) == ""
