"""Kills a process that appends through Spark with SIGKILL, again and again, and looks at what is left.

`python tests/crash/kill_append.py --kills 50 --out benchmarks/results/kill_append.json` keeps the result, which is written
only if every check held. After every kill the table must open, hold exactly the rows of its committed appends, and take another append.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import needlefish as nf

# Run as a script, this file sees its own folder only.
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.record import machine

# Each append adds the keys that follow those which are there. Versions are no measure: merges of runs make some too.
BATCH_ROWS = 20_000
SCHEMA = "id bigint, name string, part bigint"
# The first append of a process takes some seconds, the next ones about one each: this reaches several.
_WINDOW_SECONDS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill: when after the start of an append, what had been acknowledged, what was found."""

    number: int
    after_seconds: float
    acknowledged_appends: int
    found_appends: int
    version: int
    orphan_files: int


def append_for_ever(uri: str, most: int) -> None:
    """The victim: appends batch after batch and says when one starts and when it is acknowledged."""
    spark = nf.spark_session(master="local[2]")
    table = nf.Table.open(uri)
    for _ in range(most):
        first = table.describe().rows
        df = spark.range(first, first + BATCH_ROWS).selectExpr("id", "md5(cast(id as string)) as name", "id % 7 as part")
        print("start", flush=True)
        table.append(df)
        print(f"done {table.describe().rows // BATCH_ROWS}", flush=True)


@contextmanager
def victim(uri: str, most: int = 1_000_000) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, __file__, "--append", uri, "--most", str(most)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        # The whole session, so that the JVM and its Python workers die with it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def check(uri: str) -> tuple[int, int, int]:
    """Appends, version and orphans; fails if the rows are not exactly those of whole appends."""
    table = nf.Table.open(uri)
    found = sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())
    appends, rest = divmod(table.describe().rows, BATCH_ROWS)
    assert rest == 0, f"version {table.version} counts {table.describe().rows} rows"
    assert found == list(range(appends * BATCH_ROWS)), f"version {table.version} holds {len(found)} rows"
    files = len(list(Path(uri, "data").rglob("*.parquet")))
    return appends, table.version, files - table.describe().files


def kill_once(uri: str, number: int, chance: random.Random) -> Kill:
    acknowledged = nf.Table.open(uri).describe().rows // BATCH_ROWS
    wait = chance.uniform(0, _WINDOW_SECONDS)
    with victim(uri) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "start\n"
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGKILL)
        rest = process.stdout.read().splitlines()
    for line in rest:
        if line.startswith("done "):
            acknowledged = int(line.split()[1])
    appends, version, orphans = check(uri)
    assert appends in (acknowledged, acknowledged + 1), f"acknowledged {acknowledged}, found {appends}"
    return Kill(
        number=number,
        after_seconds=round(wait, 3),
        acknowledged_appends=acknowledged,
        found_appends=appends,
        version=version,
        orphan_files=orphans,
    )


def run(uri: str, kills: int, seed: int) -> list[Kill]:
    """All kills on one table, so that each also meets what the ones before it left behind; then one append in peace."""
    nf.Table.create(uri, SCHEMA, key="id", partition_by=["part"], properties={"granule_rows": 1_000})
    chance = random.Random(seed)
    done = []
    for number in range(kills):
        done.append(kill_once(uri, number, chance))
        print(done[-1], flush=True)
    before = check(uri)[0]
    with victim(uri, most=1) as process:
        assert process.stdout is not None
        said = process.stdout.read()
    assert said.splitlines()[-1] == f"done {before + 1}", said
    assert check(uri)[0] == before + 1
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=20261116)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--append", help=argparse.SUPPRESS)
    parser.add_argument("--most", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.append:
        append_for_ever(arguments.append, arguments.most)
        return
    before = machine()
    with tempfile.TemporaryDirectory() as folder:
        kills = run(f"{folder}/table", arguments.kills, arguments.seed)
    committed = sum(kill.found_appends == kill.acknowledged_appends + 1 for kill in kills)
    summary = {"kills": len(kills), "seed": arguments.seed, "killed_after_commit_before_answer": committed}
    print(json.dumps(summary))
    if arguments.out:
        arguments.out.write_text(json.dumps({"machine": before, **summary, "each": [asdict(kill) for kill in kills]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
