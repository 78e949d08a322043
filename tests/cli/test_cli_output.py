"""How values look: numbers for people, rows for programs."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from needlefish.cli.csv_output import csv_line, csv_lines
from needlefish.cli.human import bytes_text, counted, seconds_text, time_text
from needlefish.cli.json_output import json_lines


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (102_400, "100 KiB"),
        (1_023_000, "999 KiB"),
        (1_048_575, "1.0 MiB"),
        (5 * 2**40, "5.0 TiB"),
        (2**60, "1,024 PiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00042, "0.4 ms"), (0.25, "250 ms"), (0.9996, "1.0 s"), (3.14, "3.1 s"), (59.96, "1 min 0 s"), (125, "2 min 5 s")],
)
def test_seconds(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_counts_and_times() -> None:
    assert [counted(1, "file"), counted(0, "file"), counted(12_000, "query")] == ["1 file", "0 files", "12,000 queries"]
    assert time_text(1_793_491_200_007) == "2026-11-01 00:00:00.007"


VALUES = {
    "flag": (pa.bool_(), True, True, "true"),
    "count": (pa.uint64(), 2**64 - 1, 2**64 - 1, str(2**64 - 1)),
    "day": (pa.date32(), date(2026, 11, 1), "2026-11-01", "2026-11-01"),
    "instant": (
        pa.timestamp("us", "UTC"),
        datetime(2026, 11, 1, 12, 0, 0, 5, UTC),
        "2026-11-01T12:00:00.000005Z",
        "2026-11-01T12:00:00.000005Z",
    ),
    "wall": (pa.timestamp("us"), datetime.fromisoformat("2026-11-01T12:00:00"), "2026-11-01T12:00:00", "2026-11-01T12:00:00"),
    "exact": (
        pa.decimal128(30, 10),
        Decimal("12345678901234567890.0000000001"),
        "12345678901234567890.0000000001",
        "12345678901234567890.0000000001",
    ),
    "tiny": (pa.decimal128(30, 10), Decimal("0.0000000001"), "1E-10", "0.0000000001"),
    "bytes": (pa.binary(), b"\x00\xff", "AP8=", "AP8="),
    "nan": (pa.float64(), float("nan"), "NaN", "NaN"),
    "least": (pa.float32(), float("-inf"), "-Infinity", "-Inf"),
    "nested": (
        pa.struct([("at", pa.list_(pa.float64()))]),
        {"at": [1.5, float("inf")]},
        {"at": [1.5, "Infinity"]},
        '"{""at"":[1.5,""Infinity""]}"',
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 1)], {"a": 1}, '"{""a"":1}"'),
    "quoted": (pa.string(), 'say "a", b', 'say "a", b', '"say ""a"", b"'),
    "lines": (pa.string(), "a\nb", "a\nb", '"a\nb"'),
    "empty": (pa.string(), "", "", '""'),
    "nothing": (pa.string(), None, None, ""),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_survive_json_and_csv(name: str) -> None:
    kind, value, in_json, in_csv = VALUES[name]
    batch = pa.record_batch([pa.array([value], kind)], names=["v"])
    assert [json.loads(line) for line in json_lines(batch)] == [{"v": in_json}]
    assert list(csv_lines(batch)) == [in_csv]


def test_a_header_is_quoted_where_needed() -> None:
    assert csv_line(["a", "b,c"]) == 'a,"b,c"'
