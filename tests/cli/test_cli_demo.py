"""`needlefish demo`: the show runs, shows the same every time, and touches nothing that is not its own."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from needlefish.cli.demo import command
from needlefish.cli.demo.command import STEPS
from needlefish.cli.demo.place import MARK, cleared
from needlefish.cli.demo.requests import DAYS, batches, request_id, requests
from needlefish.errors import AlreadyExistsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., Any]


def test_the_show(cli: Run, spark: "SparkSession", tmp_path: Path) -> None:
    outcome = cli("demo", str(tmp_path / "demo"), "--rows", "2000")
    titles = [line for line in outcome.out.splitlines() if any(step.title in line for step in STEPS) and "──" in line]
    assert len(titles) == len(STEPS)
    assert "version 2: 1,200 rows" in outcome.out
    assert "2,000 rows in " in outcome.out
    assert " 1 late; " in outcome.out
    assert "this batch, or a later one of its name, is there already" in outcome.out
    assert "0 rows found" in outcome.out
    assert " rows can be seen, as before." in outcome.out
    assert "would be removed; versions from" in outcome.out
    assert "retries 1" in outcome.out
    assert request_id(1000) in outcome.out
    assert "single partition, 1 partition looked up by name" in outcome.out
    assert all(f"day={day}/" in outcome.out for day in DAYS)
    assert "Try next" in outcome.out
    assert outcome.err == ""


def test_the_show_for_programs(cli: Run, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps that need no Spark job; `test_the_show` runs them all."""
    quick = tuple(step for step in STEPS if step.title in ("An empty table", "How it came to be", "On disk"))
    monkeypatch.setattr(command, "STEPS", quick)
    found = cli("demo", str(tmp_path), "--rows", "500", "--json").json
    assert [step["title"] for step in found["steps"]] == [step.title for step in quick]
    assert (found["rows"], found["steps"][1]["versions"]) == (500, 1)


def test_the_changes_add_up(cli: Run, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaced rows stay as many; what is deleted is gone and nothing else is."""
    wanted = ("An empty table", "Three days of requests", "Two more days", "Second thoughts", "The same delivery again", "A user to forget", "Tidy again", "What nobody needs", "As it was before")  # fmt: skip
    monkeypatch.setattr(command, "STEPS", tuple(step for step in STEPS if step.title in wanted))
    found = {step["title"]: step for step in cli("demo", str(tmp_path), "--rows", "5000", "--json").json["steps"]}
    upsert, again, delete = found["Second thoughts"], found["The same delivery again"], found["A user to forget"]
    assert (upsert["late"], upsert["inserted"], upsert["deleted"]) == (1, 0, 0)
    assert upsert["replaced"] > 30
    assert again["repeated"]
    assert delete["deleted"] > 5
    assert delete["left"] == 0
    tidy = found["Tidy again"]
    assert tidy["folded"] == upsert["replaced"] + upsert["late"] + delete["deleted"]
    assert (tidy["skipped"], tidy["rows_seen"]) == (0, 5000 - delete["deleted"])
    assert found["What nobody needs"]["objects"] >= tidy["files_before"]
    assert found["As it was before"]["rows_now"] == 5000 - delete["deleted"]


def test_rows_are_the_same_everywhere(spark: "SparkSession") -> None:
    """Pinned: whoever changes the rows changes what every reader of the documentation sees."""
    found = requests(spark, batches(1000)[0], 1000).orderBy("request_id").collect()
    assert {row.request_id for row in found} == {request_id(number) for number in range(600)}
    shown = "\n".join(f"{row.request_id} {row.user_id} {row.host} {row.path} {row.status} {row.latency_ms}" for row in found)
    assert hashlib.sha256(shown.encode()).hexdigest() == "8f11b94f97844dc56ee4946aee0b245461644251055eb354da7a772b22b39cd5"


def test_some_rows_of_the_second_delivery_are_late(spark: "SparkSession") -> None:
    rows = 20_000
    late = requests(spark, batches(rows)[1], rows).where(f"ts < timestamp '{DAYS[3]}'").count()
    assert 0 < late < rows // 100


def test_a_foreign_directory_is_refused(attempt: Run, tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    outcome = attempt("demo", str(tmp_path))
    assert outcome.code == AlreadyExistsError.exit_code
    assert "not an earlier demo" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(AlreadyExistsError):
        cleared(str(tmp_path / "file"))


def test_an_earlier_demo_is_replaced(tmp_path: Path) -> None:
    place = cleared(str(tmp_path / "demo"))
    (place / "requests").mkdir()
    assert cleared(str(tmp_path / "demo")) == place
    assert [path.name for path in place.iterdir()] == [MARK]
