"""`plans`, `compact`, `cluster`, `execute`, `cancel`, `clean` and `tend`: for people, for programs, and what they refuse."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from needlefish.cli.tend_text import event_line
from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.services.tend import Event
from needlefish.store import RetriedStore, open_store
from needlefish.testing.changes import upsert_table
from needlefish.testing.tables import build_table
from needlefish.timeline import read_newest

Run = Callable[..., Any]

_ID = re.compile(r"\b[0-9a-f]{16}\b")
HERE = {"granule_rows": 5, "chunkset_rows": 100}


@pytest.fixture
def store(uri: str) -> RetriedStore:
    return open_store(StoreConfig(uri=uri))


@pytest.fixture
def worn(store: RetriedStore) -> str:
    """60 rows of two hosts, upserted seven times: small files, and 60 rows that are hidden."""
    state = build_table(store, "id string, host string, n int64", "id", map(row, range(60)), partition_by="host", properties=HERE)
    for turn in range(7):
        state = changed(store, state, turn)
    return store.uri


def changed(store: RetriedStore, state: TableState, turn: int) -> TableState:
    return upsert_table(store, state, [row(number) | {"n": -turn} for number in range(turn, 60, 7)])[0]


def row(number: int) -> dict[str, Any]:
    return {"id": f"k{number:02}", "host": "ab"[number % 2], "n": number}


def only_id(text: str) -> str:
    (found,) = set(_ID.findall(text))
    return found


def test_a_compaction_in_one_go(cli: Run, worn: str) -> None:
    before = cli("scan", worn, "--json").json_lines
    out = cli("compact", worn).out
    assert re.fullmatch(r"version \d+: compaction: \d+ files, .* became 2, .*; 60 hidden rows are gone, in .*\n", out)
    described = cli("describe", worn, "--json").json
    assert (described["files"], described["rows"], described["skipped"]) == (2, 60, 0)
    assert cli("compact", worn).out == f"nothing is worth a compaction: the table stays at version {described['version']}\n"
    assert cli("compact", worn, "--json").json is None
    assert sorted(map(str, cli("scan", worn, "--json").json_lines)) == sorted(map(str, before))


def test_a_partition_by_hand(cli: Run, worn: str) -> None:
    result = cli("compact", worn, "--partition", "host=a", "--json").json
    assert (result["action"], result["files"], result["folded"], result["repeated"]) == ("compaction", 1, 30, False)
    assert cli("describe", worn, "--json").json["skipped"] == 30


def test_plan_show_execute(cli: Run, worn: str) -> None:
    plan = only_id(cli("compact", worn, "--plan-only").out)
    lines = cli("plans", worn).out.splitlines()
    assert lines[0].split() == ["plan", "action", "state", "kind", "age", "files", "rows", "bytes", "waits", "for"]
    assert lines[1].split()[:4] == [plan, "compaction", "requested", "cancellable"]
    assert lines[1].rstrip().endswith("a worker")
    (status,) = cli("plans", worn, "--json").json
    assert (status["id"], status["state"], status["epoch"], status["owner"]) == (plan, "requested", 0, None)
    done = cli("execute", worn, plan, "--json").json
    assert (done["plan"], done["folded"]) == (plan, 60)
    assert cli("execute", worn, plan).out.startswith(f"another worker has done this already, as version {done['version']}: ")
    assert cli("plans", worn).out == "no plans: nothing waits and nobody works on the table\n"
    ended = cli("plans", worn, "--ended", "6", "--json").json
    assert (plan, "compaction", "completed") in [(one["id"], one["action"], one["state"]) for one in ended]


def test_a_plan_that_nobody_executes_is_cancelled_at_once(cli: Run, attempt: Run, worn: str) -> None:
    plan = only_id(cli("compact", worn, "--plan-only", "--immutable").out)
    refused = attempt("cancel", worn, plan)
    assert (refused.code, refused.out) == (5, "")
    assert f"plan {plan} is immutable; execute it, or cancel it with" in refused.err
    assert re.fullmatch(rf"version \d+: plan {plan} is rolled back\n", cli("cancel", worn, plan, "--force").out)
    over = attempt("execute", worn, plan, "--json")
    assert (over.code, json.loads(over.err)["error"]) == (5, "ConflictError")
    other = cli("compact", worn, "--plan-only", "--json").json["id"]
    assert cli("cancel", worn, other, "--json").json["over"]


def test_clustering(cli: Run, worn: str) -> None:
    result = cli("cluster", worn, "--by", "n,id", "--zorder", "--json").json
    assert (result["action"], result["folded"]) == ("clustering", 60)
    assert cli("cluster", worn, "--by", "n", "--by", "id", "--zorder").out.startswith("nothing is worth a clustering")
    smaller = cli("cluster", worn, "--by", "n", "--target-bytes", "1", "--where", "n < 0", "--json").json
    assert smaller["files"] > smaller["files_before"]


def test_a_clean_says_what_goes_and_why(cli: Run, worn: str) -> None:
    cli("compact", worn)
    now = ("--keep-versions", "1", "--keep", "0", "--grace", "0s")
    dry = cli("clean", worn, "--dry-run", *now)
    assert dry.out.splitlines()[0].split() == ["objects", "bytes", "what", "why"]
    assert "expired file" in dry.out
    assert "would be removed; versions from" in dry.out
    would = cli("clean", worn, "--dry-run", *now, "--json").json
    assert would["dry_run"]
    done = cli("clean", worn, *now, "--json").json
    assert (done["objects"], done["dry_run"]) == (would["objects"], False)
    assert done["oldest"] > 0
    again = cli("clean", worn, *now).out
    assert re.search(r": 0 objects, 0 B removed; versions from \d+ on can be read; \d+ requests, in ", again)
    assert cli("scan", worn, "--count").out == "60\n"


def test_one_round_of_a_loop(cli: Run, worn: str, tmp_path: Path) -> None:
    log = tmp_path / "tend.log"
    out = cli("tend", worn, "--once", "--log", str(log)).out
    lines = out.splitlines()
    assert re.fullmatch(rf"2\d+-\d\d-\d\d [0-9:.]+  {re.escape(worn)}  compaction  \d+ files, .* became 2, .* \(version \d+\)", lines[0])
    assert log.read_text() == out
    assert cli("tend", worn, "--once").out == ""
    events = cli("tend", worn, "--once", "--cluster-by", "n", "--no-compact", "--no-clean", "--json", "--log", str(log)).json_lines
    assert [(event["action"], event["outcome"], event["table"]) for event in events][:1] == [("clustering", "done", worn)]
    assert len(log.read_text().splitlines()) == len(lines) + len(events)


def test_a_loop_leaves_alone_what_it_was_told_to(cli: Run, worn: str) -> None:
    before = cli("describe", worn, "--json").json
    events = cli("tend", worn, "--once", "--no-compact", "--no-clean", "--json").json_lines
    assert {event["action"] for event in events} <= {"merge"}
    assert cli("describe", worn, "--json").json["files"] == before["files"]


def test_several_tables_one_of_which_fails(cli: Run, attempt: Run, worn: str, store: RetriedStore, tmp_path: Path) -> None:
    other = open_store(StoreConfig(uri=str(tmp_path / "other")))
    state = build_table(other, "id string, host string, n int64", "id", map(row, range(60)), properties=HERE)
    for turn in range(4):
        state = changed(other, state, turn)
    damaged = next(found.path for found in other.list("_needlefish/metadata/files/"))
    other.put(damaged, b"no run at all")
    outcome = attempt("tend", other.uri, worn, "--once")
    assert outcome.code == 10
    assert f"  {other.uri}  table  failed: " in outcome.out
    assert f"  {worn}  compaction  " in outcome.out
    assert read_newest(store).totals.skipped == 0


WRONG = {
    "no duration": (["tend", "{table}", "--every", "soon"], "--every is 'soon'; write a duration such as 30s, 5m, 1h or 7d"),
    "no time at all": (["tend", "{table}", "--every", "0"], "--every is 0"),
    "twice the same": (["tend", "{table}", "{table}"], "URI names a table twice"),
    "unknown column": (["tend", "{table}", "--cluster-by", "m"], "--cluster-by names 'm'"),
    "z-order of nothing": (["tend", "{table}", "--zorder"], "--zorder is given without --cluster-by"),
    "no log": (["tend", "{table}", "--once", "--log", "/nowhere/at/all"], "--log is '/nowhere/at/all', which cannot be written"),
    "keep for how long": (["clean", "{table}", "--keep", "7 moons"], "--keep is '7 moons'"),
    "keep nothing": (["clean", "{table}", "--keep-versions", "0"], "--keep-versions"),
    "compact by a wrong condition": (["compact", "{table}", "--where", "m = 1"], "'m'"),
    "compact an unknown partition": (["compact", "{table}", "--partition", "day=1"], "partitioned by host"),
    "cluster by nothing": (["cluster", "{table}", "--by", ","], "by is []"),
    "cluster by an unknown column": (["cluster", "{table}", "--by", "m"], "by names column 'm'"),
    "z-order of one": (["cluster", "{table}", "--by", "n", "--zorder"], "zorder is for 2 to"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call(attempt: Run, worn: str, name: str) -> None:
    arguments, words = WRONG[name]
    line = [argument.replace("{table}", worn) for argument in arguments]
    outcome = attempt(*line)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in " ".join(outcome.err.replace("│", " ").split())
    error = json.loads(attempt(*line, "--json").err)
    assert error["error"] == "InvalidError"
    assert words in error["message"]


def test_no_table(attempt: Run) -> None:
    for command in (["plans"], ["compact"], ["clean"], ["tend", "--once"]):
        assert attempt(command[0], "/nowhere/at/all", *command[1:]).code == 3


LINES = {
    "first": (Event(timestamp_ms=0, table="t", action="compaction", outcome="first", reason="plan 7 is\n taken"), "compaction  somebody else was first: plan 7 is taken"),
    "undone": (Event(timestamp_ms=0, table="t", action="clean", outcome="undone", reason="stopped"), "clean  undone: stopped"),
    "away": (Event(timestamp_ms=0, table="t", action="store", outcome="away", reason="503", wait_seconds=61.0), "store  not to be reached: 503; the next look is in 1 min 1 s"),
    "failed": (Event(timestamp_ms=0, table="t", action="table", outcome="failed", reason="x" * 999, wait_seconds=2.0), f"table  failed: {'x' * 240}…; the next look is in 2.0 s"),
    "rollback": (Event(timestamp_ms=0, table="t", action="rollback", outcome="done", facts={"version": 9, "rolled_back": ("ab", "cd")}), "rollback  undone, since nobody works on them any more: ab, cd (version 9)"),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_lines_of_a_loop(name: str) -> None:
    event, words = LINES[name]
    assert event_line(event) == f"1970-01-01 00:00:00.000  t  {words}"


@pytest.mark.usefixtures("spark")
def test_erasing_keys(cli: Run, attempt: Run, worn: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys.jsonl"
    keys.write_text('{"id": "k03", "host": "b"}\n{"id": "nobody", "host": "a"}\n')
    out = cli("erase", worn, str(keys)).out
    assert out.splitlines()[0].split() == ["place", "gone", "remain", "until", "looked", "at"]
    assert "not everything is gone yet; 2 keys, 1 row deleted" in out
    report = cli("erase", worn, str(keys), "--expire", "--grace", "0", "--json").json
    assert report["complete"]
    assert {place["remains"] for place in report["places"]} == {0}
    assert cli("scan", worn, "--count").out == "59\n"
    missing = attempt("erase", worn, "/nowhere.parquet", "--json")
    assert (missing.code, json.loads(missing.err)["error"]) == (3, "NotFoundError")
