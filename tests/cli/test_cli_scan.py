"""`needlefish scan`: which rows, in which form, and what the receipt says."""

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.store import open_store
from needlefish.testing.tables import build_table

Run = Callable[..., Any]


def ids(outcome: Any) -> list[str]:
    return sorted(line["id"] for line in outcome.json_lines)


def test_json_is_one_object_per_line_with_exact_values(cli: Run, table: str) -> None:
    lines = {line["id"]: line for line in cli("scan", table, "--json").json_lines}
    assert len(lines) == 90
    assert lines["k020"] == {"id": "k020", "ts": "2026-11-02T12:00:00Z", "n": 20, "price": "20.50", "note": 'a "b", c'}
    assert lines["k021"]["note"] is None


def test_a_pipe_gets_csv_of_everything(cli: Run, table: str) -> None:
    outcome = cli("scan", table)
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    assert len(rows) == 90
    assert outcome.err == ""
    found = next(line for line in rows if line["id"] == "k020")
    assert found == {"id": "k020", "ts": "2026-11-02T12:00:00Z", "n": "20", "price": "20.50", "note": 'a "b", c'}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--where", "n >= 88"], ["k088", "k089"]),
        (["--partition", "day=2026-11-01", "--where", "n > 17"], ["k018", "k019"]),
        (["--partition", "day=2026-11-01", "--partition", "day=2026-11-02", "--where", "n in (0, 39, 40)"], ["k000", "k039"]),
        (["--key-from", "k087"], ["k087", "k088", "k089"]),
        (["--key-from", "k005", "--key-to", "k006"], ["k005", "k006"]),
        (["--where", "n > 57", "--version", "1"], ["k058", "k059"]),
    ],
)
def test_rows_are_chosen(cli: Run, table: str, arguments: list[str], expected: list[str]) -> None:
    assert ids(cli("scan", table, "--json", *arguments)) == expected


def test_columns_come_in_the_order_asked_for(cli: Run, table: str) -> None:
    assert cli("scan", table, "--columns", "n, id", "-c", "price", "--limit", "1").out.splitlines()[0] == "n,id,price"


def test_keys_of_several_columns_and_of_numbers_are_read_by_their_types(cli: Run, uri: str) -> None:
    rows = [{"n": n, "name": name} for n in (1, 2, 10) for name in "ab"]
    build_table(open_store(StoreConfig(uri=uri)), "n int64, name string", ["n", "name"], rows)
    found = cli("scan", uri, "--json", "--key-from", "2", "--key-from", "b", "--key-to", "10").json_lines
    assert [(line["n"], line["name"]) for line in found] == [(2, "b"), (10, "a"), (10, "b")]


def test_a_limit_counts_exactly(cli: Run, table: str) -> None:
    assert len(cli("scan", table, "--json", "--limit", "7").json_lines) == 7
    assert len(cli("scan", table, "--json", "--limit", "0").json_lines) == 90


def test_the_receipt_is_the_last_line(cli: Run, table: str) -> None:
    *rows, last = cli("scan", table, "--json", "--receipt", "--where", "ts = timestamp '2026-11-02 12:00:00'").json_lines
    receipt = last["receipt"]
    assert len(rows) == 20
    assert (receipt["mode"], receipt["partitions"], receipt["rows_returned"]) == ("single partition", 1, 20)
    assert (receipt["files_total"], receipt["files_read"]) == (9, 2)
    assert receipt["requests"] > 0
    assert receipt["bytes_read"] > 0


def test_a_pipe_gets_the_receipt_on_stderr(cli: Run, table: str) -> None:
    outcome = cli("scan", table, "--partition", "day=2026-11-03", "--receipt")
    assert len(outcome.out.splitlines()) == 51
    assert "single partition, 1 partition looked up by name (version 2)" in outcome.err
    assert "5 read of 9: 4 skipped by partition, 0 by key" in outcome.err


def test_count_is_a_bare_number_in_a_pipe(cli: Run, table: str) -> None:
    assert cli("scan", table, "--count").out == "90\n"
    assert cli("scan", table, "--count", "--where", "note is null", "--json").json == {"count": 45}
    assert cli("scan", table, "--count", "--json", "--receipt").json["receipt"]["rows_read"] == 90


def test_a_time_opens_the_version_of_that_time(cli: Run, table: str) -> None:
    history = cli("history", table, "--json").json
    first = next(entry for entry in history if entry["version"] == 1)
    assert cli("scan", table, "--count", "--timestamp", str(first["timestamp_ms"])).out == "60\n"


def test_the_time_that_history_shows_opens_that_version(cli: Run, table: str) -> None:
    line = next(line for line in cli("history", table).out.splitlines() if "+60" in line)
    shown = " ".join(line.split()[1:3])
    assert cli("scan", table, "--count", "--timestamp", shown).out == "60\n"


def test_a_terminal_gets_a_screenful_a_note_and_a_receipt(cli: Run, table: str, terminal: Run) -> None:
    with terminal(100):
        lines = cli("scan", table).out.splitlines()
    assert lines[0].split() == ["id", "ts", "n", "price", "note"]
    assert "12:00:00.000Z" in next(line for line in lines if line.startswith("k"))
    assert sum(line.startswith("k0") for line in lines) == 20
    assert "showing 20 of 90 rows; --limit N shows more, --limit 0 all, --count counts" in lines
    assert any(line.startswith("cost") and "request" in line for line in lines)


def test_a_terminal_that_shows_everything_just_counts(cli: Run, table: str, terminal: Run) -> None:
    with terminal(100):
        out = cli("scan", table, "--where", "n < 3").out
    assert "3 rows\n" in out
    assert "3 of" not in out.split("mode")[0]


def test_filtered_rows_beyond_the_limit_are_many(cli: Run, table: str, terminal: Run) -> None:
    with terminal(100):
        assert "showing 2 of many rows" in cli("scan", table, "--where", "n < 30", "--limit", "2").out


def test_a_narrow_terminal_names_the_columns_it_cannot_show(cli: Run, table: str, terminal: Run) -> None:
    with terminal(35):
        out = cli("scan", table, "--limit", "1").out
    assert "not shown for want of space: price," in out
    assert ".50" not in out
