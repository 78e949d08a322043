"""Makes the golden table of the current format: `python tests/golden/make_golden.py <folder>`.

A golden table is made once, by the release that introduces a format, and never again: later releases must read what is
there. Ids and times are fixed, so that the same code makes the same bytes.
"""

# Times without a zone are a type of column here.
# ruff: noqa: DTZ001

import json
import math
import random
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from needlefish.config import StoreConfig
from needlefish.runtime import Runtime
from needlefish.store import open_store
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.tables import append_rows, build_table, scan_table

_SCHEMA = (
    "id string, ts timestamp, host string, b boolean, i8 int8, i16 int16, i32 int32, i64 int64, u8 uint8, u16 uint16, u32 uint32, u64 uint64, "
    "f float, d double, m decimal(38,10), raw binary, day date, wall timestamp_ntz, tags list<string>, place struct<lat:double,lon:double>, counts map<string,int64>"
)


def row(number: int) -> dict[str, Any]:
    """Rows of every type, with nulls here and there, times before 1970, NaN, both zeros and awkward texts."""
    every = {
        "id": f"key-{number:04}",
        "ts": datetime(1969, 12, 31, tzinfo=UTC) + timedelta(hours=7 * number, microseconds=number),
        "host": ["b/c", ""][number % 4 // 2],
        "b": number % 2 == 0,
        "i8": number % 256 - 128,
        "i16": -number,
        "i32": number * 1_000,
        "i64": 2**63 - 1 - number,
        "u8": number % 256,
        "u16": 2**16 - 1 - number,
        "u32": 2**32 - 1 - number,
        "u64": 2**64 - 1 - number,
        "f": number / 4,
        "d": [math.nan, -0.0, 0.0, math.inf, -1.5][number % 5],
        "m": Decimal(number) / 8,
        "raw": bytes([0, number % 256, 255]),
        "day": date(1960, 1, 1) + timedelta(days=number * 100),
        "wall": datetime(2026, 1, 1) + timedelta(minutes=number),
        "tags": [f"t{number}", None],
        "place": {"lat": number / 2, "lon": None},
        "counts": [("n", number)],
    }
    # Every column but the key and the time is null once.
    nullable = list(every)[2:]
    if number < len(nullable):
        every[nullable[number]] = None
    return every


def make(folder: Path) -> None:
    """A creation and two appends, over a few partitions, chunksets and granules."""
    runtime = Runtime(clock=FakeClock(), chance=random.Random(1))
    store = open_store(StoreConfig(uri=str(folder / "table")), runtime)
    properties = {"granule_rows": 3, "chunkset_rows": 6}
    state = build_table(
        store,
        _SCHEMA,
        ["id"],
        [row(number) for number in range(0, 20, 2)],
        partition_by=["year(ts)", "host"],
        properties=properties,
        runtime=runtime,
    )
    state = append_rows(store, state, [row(number) for number in range(1, 20, 2)], runtime)
    rows, _ = scan_table(store, state)
    shown = sorted(({name: repr(value) for name, value in found.items()} for found in rows.to_pylist()), key=lambda found: found["id"])
    (folder / "rows.json").write_text(json.dumps(shown, indent=0, sort_keys=True) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]))
