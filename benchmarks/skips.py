"""What hidden rows cost readers: `python -m benchmarks.skips`; the result goes to benchmarks/results/skips.json.

8 M rows of 7 columns in 20 files, 5% of each hidden at random. Spark over the plain files against `to_spark`, and a scan of the version before
rows were hidden against one after. The two take turns, so that the machine's noise hits both; least and median times are kept.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from rich.table import Table

import needlefish as nf
from benchmarks.record import console, keep, machine
from benchmarks.tag import ids
from needlefish.config import StoreConfig
from needlefish.format.skips_record import skips_in
from needlefish.store import open_store
from needlefish.table.row_changes import RowChanges, commit_changes
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.testing.tables import build_table

SCHEMA = "request_id string, ts timestamp, user_id bigint, host string, path string, status int, latency_ms double"
HIDDEN = 0.05
FILES = 20
Work = Callable[[], object]


def rows_of(rows: int) -> pa.Table:
    chance = np.random.default_rng(1)
    moments = pa.array(chance.integers(1_793_000_000_000_000, 1_796_000_000_000_000, rows)).cast(pa.timestamp("us", tz="UTC"))
    hosts, paths = (pa.array([f"{name}-{number}" for number in range(count)]) for name, count in (("host", 50), ("/item", 5_000)))
    return pa.table(
        {
            "request_id": ids(rows, 2),
            "ts": moments,
            "user_id": chance.integers(0, 100_000, rows),
            "host": hosts.take(pa.array(chance.integers(0, 50, rows))),
            "path": paths.take(pa.array(chance.integers(0, 5_000, rows))),
            "status": chance.choice(np.array([200, 301, 404, 500], np.int32), rows),
            "latency_ms": chance.integers(0, 100_000, rows) / 100,
        }
    )


def build(uri: str, rows: int) -> int:
    """Version 1 has the rows, version 2 hides some of every file. Returns how many."""
    store = open_store(StoreConfig(uri=uri))
    state = build_table(store, SCHEMA, "request_id", rows_of(rows), properties={"chunkset_rows": rows // FILES})
    chance = np.random.default_rng(3)
    infos = plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets()
    skips = tuple(skips_in(info, chance.choice(info.rows, int(info.rows * HIDDEN), replace=False).tolist()) for info in infos)
    return commit_changes(store, state, RowChanges(action="delete", skips=skips)).skipped


def written(frame: DataFrame) -> Work:
    return lambda: frame.write.format("noop").mode("overwrite").save()


def summed(frame: DataFrame) -> Work:
    # A new frame each time: one that is collected again finds its shuffle done, and reads no file.
    return lambda: frame.selectExpr("sum(latency_ms)").collect()


def scanned(table: nf.Table) -> Work:
    return lambda: table.scan().to_arrow()


def works(uri: str, spark: object) -> dict[str, tuple[Work, Work]]:
    """For each question the plain answer and the one with hidden rows."""
    before, after = nf.Table.open(uri, version=1), nf.Table.open(uri)
    plain = spark.read.parquet(f"{uri}/data")  # type: ignore[attr-defined]
    ours = after.to_spark(spark)  # type: ignore[arg-type]
    return {
        "Spark, all columns": (written(plain), written(ours)),
        "Spark, sum of one column": (summed(plain), summed(ours)),
        "scan without Spark, all columns": (scanned(before), scanned(after)),
    }


def seconds(work: Work) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_turns(pair: tuple[Work, Work], rounds: int) -> dict[str, object]:
    """After one round that warms everything up."""
    for work in pair:
        work()
    taken = list(zip(*([seconds(work) for work in pair] for _ in range(rounds)), strict=True))
    least, middle = ([round(of(times), 3) for times in taken] for of in (min, median))
    return {
        "plain": {"least": least[0], "median": middle[0]},
        "hidden": {"least": least[1], "median": middle[1]},
        "ratio": {"least": round(least[1] / least[0], 2), "median": round(middle[1] / middle[0], 2)},
        "seconds": {"plain": [round(one, 3) for one in taken[0]], "hidden": [round(one, 3) for one in taken[1]]},
    }


def show(results: Mapping[str, Mapping[str, Mapping[str, object]]]) -> None:
    grid = Table("what", "plain s (least / median)", "hidden s", "ratio")
    for name, found in results.items():
        grid.add_row(name, *(f"{found[part]['least']} / {found[part]['median']}" for part in ("plain", "hidden", "ratio")))
    console().print(grid)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="needlefish-skips-") as folder:
        uri = f"{folder}/table"
        hidden = build(uri, given.rows)
        spark = nf.spark_session(app="needlefish benchmark")
        before = machine()
        results = {name: in_turns(pair, given.rounds) for name, pair in works(uri, spark).items()}
        spark.stop()
    show(results)  # type: ignore[arg-type]
    path = keep("skips", {"rows": given.rows, "files": FILES, "hidden": hidden, "rounds": given.rounds, "results": results}, before)
    print(f"load average at the start {before['load_before']}; written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
