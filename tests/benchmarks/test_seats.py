"""A peer in a process of its own: it answers, and its end is an answer too."""

import os
import sys
from pathlib import Path

import pytest
from benchmarks.answers import Ask
from benchmarks.peers import Place, setup_of
from benchmarks.peers.shared_files import write_shared
from benchmarks.seats import InlineSeat, ProcessSeat
from benchmarks.workloads import WORKLOADS, Sizes, Workload


@pytest.fixture
def workload() -> Workload:
    return WORKLOADS["events"](Sizes(files=2, rows=50))


@pytest.fixture
def place(workload: Workload, tmp_path: Path) -> Place:
    found = Place(shared=str(tmp_path / "shared"), own=str(tmp_path / "own"))
    write_shared(workload, found)
    return found


def test_a_process_answers_with_rows_and_its_own_memory(workload: Workload, place: Place) -> None:
    seat = ProcessSeat("duckdb", workload, place)
    try:
        assert seat.ask(Ask(verb="open")).status == "ok"
        found = seat.ask(Ask(verb="find", argument=workload.present_keys(3)))
        assert (found.status, found.count) == ("ok", 3)
        assert found.peak_bytes > 1_000_000
        assert seat.ask(Ask(verb="upsert", argument="nowhere")).reason == "plain Parquet files have no upsert"
    finally:
        seat.leave()


def test_a_process_that_ends_has_failed_with_its_code(workload: Workload, place: Place) -> None:
    seat = ProcessSeat("duckdb", workload, place)
    try:
        assert seat.ask(Ask(verb="open")).status == "ok"
        # What the kernel does to a process that takes too much memory.
        os.kill(seat.process_id, 9)
        answers = [seat.ask(Ask(verb="find", argument=workload.present_keys(1))) for _ in range(2)]
    finally:
        seat.leave()
    assert [found.status for found in answers] == ["failed", "failed"]
    assert answers[0].reason == answers[1].reason == "its process ended with code -9 during find"


def test_a_peer_that_is_not_installed_fails_by_name(workload: Workload, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "benchmarks.peers.polars", None)
    found = InlineSeat("polars", workload, place).ask(Ask(verb="open"))
    assert found.status == "failed"
    assert found.reason.startswith("not installed: ")
    assert setup_of("polars").startswith("not installed: ")


def test_a_process_that_takes_too_long_is_stopped(workload: Workload, place: Place) -> None:
    seat = ProcessSeat("duckdb", workload, place, limit_seconds=0.001)
    try:
        found = seat.ask(Ask(verb="open"))
    finally:
        seat.leave()
    assert found.status == "failed"
    assert found.reason.startswith("stopped: no answer to open within")
