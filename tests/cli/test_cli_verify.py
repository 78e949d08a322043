"""`needlefish verify`, `rebuild` and `adopt`: what they print, and how they exit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.format.run import run_path
from needlefish.store import RetriedStore, open_store
from needlefish.testing.damage import RUN_DAMAGES, flip
from needlefish.timeline import read_newest

Run = Callable[..., Any]


@pytest.fixture
def store(table: str) -> RetriedStore:
    return open_store(StoreConfig(uri=table))


def test_a_sound_table(cli: Run, table: str) -> None:
    out = cli("verify", table).out
    assert out.startswith("version 2: sound in 3 log entries, 6 runs, 9 files, 90 rows, ")
    assert "(not read)" in cli("verify", table, "--no-data").out
    assert cli("verify", table, "--version", "1").out.startswith("version 1: sound in 2 log entries")


def test_damage_is_named_with_its_remedy_and_the_exit_code_says_so(attempt: Run, store: RetriedStore, table: str) -> None:
    run = read_newest(store).runs_of("bloom_filters")[0]
    RUN_DAMAGES["block flipped"](store, run)
    outcome = attempt("verify", table)
    assert (outcome.code, outcome.err) == (10, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"problem: {run_path(run.kind, run.id)}: block 0 does not fit its checksum; rebuild 'bloom_filters'"
    assert lines[1].startswith("note: data/day=2026-11-03/")
    assert lines[-1].startswith("version 2: 1 problem in 3 log entries")


def test_json_has_everything_and_the_same_exit_code(attempt: Run, store: RetriedStore, table: str) -> None:
    path = next(found.path for found in store.list("data/"))
    flip(store, path, -30)
    outcome = attempt("verify", table, "--json")
    assert outcome.code == 10
    assert (outcome.json["ok"], outcome.json["problem_count"]) == (False, 1)
    assert outcome.json["problems"][0]["object"] == path
    assert outcome.json["problems"][0]["what"] == "the footer does not fit its checksum"


def test_many_problems_are_cut_for_people(attempt: Run, store: RetriedStore, table: str) -> None:
    store.delete([found.path for found in store.list("data/")])
    assert [line[:8] for line in attempt("verify", table).out.splitlines()] == ["problem:"] * 9 + ["version "]


def test_a_table_that_cannot_even_be_opened(attempt: Run, store: RetriedStore, table: str) -> None:
    store.delete(["_needlefish/checkpoints/latest.json"])
    flip(store, "_needlefish/log/00000000000000000001.json", 60)
    outcome = attempt("verify", table)
    assert outcome.code == 10
    assert "_needlefish/log/00000000000000000001.json" in outcome.err


@pytest.mark.usefixtures("spark")
def test_rebuild_repairs(attempt: Run, cli: Run, store: RetriedStore, table: str) -> None:
    RUN_DAMAGES["deleted"](store, read_newest(store).runs_of("files")[0])
    assert attempt("verify", table, "--no-data").code == 10
    result = cli("rebuild", table, "files", "--json").json
    assert (result["version"], result["kind"], result["files"], result["runs_removed"], result["lost"]) == (4, "files", 9, 2, [])
    assert cli("verify", table).out.startswith("version 4: sound")
    assert cli("rebuild", table, "bloom_filters", "--partition", "day=2026-11-01").out.startswith("version 6: bloom_filters of 2 files, ")


def test_rebuild_refuses_other_kinds(attempt: Run, table: str) -> None:
    outcome = attempt("rebuild", table, "everything")
    assert outcome.code == 2
    assert "everything" in outcome.err


@pytest.mark.usefixtures("spark")
def test_adopt(cli: Run, attempt: Run, uri: str) -> None:
    Path(uri, "day=2026-11-01").mkdir(parents=True)
    pq.write_table(pa.table({"id": [2, 1]}), Path(uri, "day=2026-11-01/part.parquet"))
    refused = attempt("adopt", uri, "--key", "id")
    assert refused.code == 2
    assert "add 'day' to partition_by" in refused.err
    found = cli("adopt", uri, "--key", "id", "--partition-by", "day", "--property", "global_keys=true", "--json").json
    assert (found["version"], found["rows"], found["partition_by"], found["properties"]["global_keys"]) == (0, 2, ["day"], True)
    assert attempt("adopt", uri, "--key", "id", "--partition-by", "day").code == 4
    assert [row["id"] for row in cli("scan", uri, "--where", "id = 1", "--json").json_lines] == [1]
    assert cli("verify", uri).code == 0
