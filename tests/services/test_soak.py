"""A soak of seconds in the suite; those of minutes are in benchmarks/results/soak_*.json. And that its checks can fail."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.soak.check import ops_by_key, problems

Notes = list[dict[str, Any]]


def test_a_short_soak_loses_nothing() -> None:
    command = [sys.executable, "-m", "benchmarks.soak", "--seconds", "5", "--every", "0.5", "--heartbeat", "1", "--seed", "7", "--no-keep"]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1] == "0 wrong"


def change(number: int, kind: str, begin: float, ack: float | None = None, seq: int | None = None) -> Notes:
    """Of key 1."""
    notes: Notes = [{"op": number, "kind": kind, "seq": seq or number, "keys": [1], "begin": begin}]
    return notes if ack is None else [*notes, {"ack": number, "at": ack, "version": number}]


def look(*seen: int, begin: float = 10.0, known: float = 11.0) -> dict[str, Any]:
    return {"begin": begin, "known": known, "version": 9, "asked": [1], "seen": [(1, seq) for seq in seen], "wrong": []}


FIRST, SECOND, DELETED = change(1, "upsert", 1, 2), change(2, "upsert", 3, 4), change(3, "delete", 5, 6)


@pytest.mark.parametrize(
    ("writers", "answer"),
    [
        ([FIRST], look(1)),
        ([[*FIRST, *SECOND]], look(2)),
        ([[*FIRST, *SECOND, *DELETED]], look()),
        # Whether it was first is open while it was not acknowledged when the find began.
        ([FIRST, change(5, "upsert", 9, 12)], look(1)),
        ([FIRST, change(5, "upsert", 9, 12)], look(5)),
        ([FIRST, change(5, "delete", 9)], look(1)),
        ([FIRST, change(5, "delete", 9)], look()),
        # The greater one wins, whenever it came; once a delete may have come between, either does.
        ([change(9, "upsert", 1, 2), change(2, "upsert", 3, 4)], look(9)),
        ([change(9, "upsert", 1, 2), change(2, "upsert", 3, 4), change(4, "delete", 1, 5)], look(2)),
        ([], look()),
    ],
)
def test_an_answer_that_some_order_explains_is_right(writers: list[Notes], answer: dict[str, Any]) -> None:
    assert list(problems(ops_by_key(writers), answer)) == []


@pytest.mark.parametrize(
    ("writers", "answer", "words"),
    [
        ([FIRST], look(), "is missing"),
        ([[*FIRST, *SECOND]], look(1), "although 2 was acknowledged"),
        ([[*FIRST, *SECOND]], look(1, 2), "there twice"),
        ([[*FIRST, *DELETED]], look(1), "was deleted"),
        ([FIRST], look(7), "nobody has written"),
        ([change(5, "upsert", 12, 13)], look(5), "nobody has written"),
        ([[*change(1, "delete", 1, 2), *change(2, "upsert", 3, 4)]], look(), "is missing"),
        ([change(9, "upsert", 1, 2), change(2, "upsert", 3, 4)], look(2), "although 9 was acknowledged"),
    ],
)
def test_an_answer_that_no_order_explains_is_wrong(writers: list[Notes], answer: dict[str, Any], words: str) -> None:
    found = list(problems(ops_by_key(writers), answer))
    assert found
    assert words in found[0]


def test_a_row_with_the_words_of_another_is_wrong() -> None:
    answer = look(1) | {"wrong": [{"id": 1, "seq": 1, "text": "other"}]}
    assert "mixed up" in next(iter(problems(ops_by_key([FIRST]), answer)))
