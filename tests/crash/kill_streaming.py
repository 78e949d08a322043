"""Kills `examples/streaming.py` with SIGKILL while a real query runs, starts it again, and looks at what is left.

`python tests/crash/kill_streaming.py --kills 20` does it on one table until so many kills have hit; each source row must be visible
exactly once, with its last value, and each epoch be in the log exactly once.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import needlefish as nf

EXAMPLE = Path(__file__).parents[2] / "examples" / "streaming.py"
QUERY = "readings"
START = datetime(2026, 11, 1, tzinfo=UTC)
FILE_ROWS = 500
STEP = 300
# A kill comes this long after an epoch has been told, at most: so at any point of the next one, or before Spark notes the epoch.
_WINDOW_SECONDS = 3.0


def write_file(folder: Path, number: int) -> dict[int, int]:
    """Keys that overlap with the file before; values and times rise from file to file."""
    ids = list(range(number * STEP, number * STEP + FILE_ROWS))
    values = [10_000 * number + one for one in ids]
    moments = pa.array([START + timedelta(hours=number)] * len(ids), pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"id": ids, "ts": moments, "value": values}), folder / f".{number}")
    # It must appear whole, and the stream takes older files first.
    (folder / f".{number}").rename(folder / f"{number:04}.parquet")
    return dict(zip(ids, values, strict=True))


@contextmanager
def victim(place: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, str(EXAMPLE), *(str(place / name) for name in ("in", "table", "checkpoint"))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        # The whole session, so that the JVM and its Python workers die with it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def kill_once(place: Path, wait: float) -> list[str]:
    """What it said until it was killed, a moment after it told of its first epoch."""
    with victim(place) as process:
        assert process.stdout is not None
        said = [process.stdout.readline()]
        assert said[0].startswith("epoch "), said
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGKILL)
        said += process.stdout.read().splitlines()
    assert not said[-1].startswith("Table("), "it was done before it could be killed"
    return said


def run_to_the_end(place: Path) -> list[str]:
    with victim(place) as process:
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
        assert process.wait() == 0, said
    return said


def check(uri: str, expected: dict[int, int], epochs: int) -> None:
    """Every row of the source once, with its last value; every epoch once, in order."""
    table = nf.Table.open(uri)
    rows = table.scan(columns=["id", "value"]).to_pylist()
    repeated = [one for one, count in Counter(row["id"] for row in rows).items() if count > 1]
    assert not repeated, f"visible more than once: {repeated[:5]}"
    assert {row["id"]: row["value"] for row in rows} == expected
    batches = [entry.batch.number for entry in table.history() if entry.batch is not None and entry.batch.application == QUERY]
    assert batches == list(range(epochs))[::-1], batches
    assert table.describe().batches == {QUERY: epochs - 1}
    found = table.verify()
    assert found.ok, found.problems


def run(place: Path, kills: int, seed: int, rest: int) -> dict[str, int]:
    """A file for each kill and `rest` more, so that every kill has epochs before and behind it."""
    (place / "in").mkdir()
    expected: dict[int, int] = {}
    files = kills + rest
    for number in range(files):
        expected |= write_file(place / "in", number)
    chance = random.Random(seed)
    said = []
    for _ in range(kills):
        said += kill_once(place, chance.uniform(0, _WINDOW_SECONDS))
    said += run_to_the_end(place)
    check(str(place / "table"), expected, files)
    return {"kills": kills, "seed": seed, "epochs": files, "replayed": sum("was there already" in line for line in said)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rest", type=int, default=60, help="epochs that no kill is meant for; a kill may let several pass")
    parser.add_argument("--seed", type=int, default=20261116)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(Path(folder), given.kills, given.seed, given.rest)))


if __name__ == "__main__":
    main()
