"""Append and scan beside Spark's own Parquet writer, DuckDB and pyarrow, on the same rows in the same run.

`python -m benchmarks.pipeline [--rows N]` from the root of the repository; the result goes to benchmarks/results/pipeline.json.
Peers take turns, so that the machine's noise hits all of them; figures are medians.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median

import duckdb
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from rich.table import Table

import needlefish as nf
from benchmarks.record import console, keep, machine

ROUNDS = 3
SCHEMA = "request_id string, ts timestamp, user_id bigint, host string, path string, status int, latency_ms double"


def requests(spark: SparkSession, rows: int) -> DataFrame:
    """Web requests over five days, ids in no order."""
    return spark.range(rows).selectExpr(
        "md5(cast(id as string)) as request_id",
        "timestamp_micros(1793491200000000 + pmod(xxhash64(id, 4), 432000000000)) as ts",
        "cast(pmod(xxhash64(id), 100000) as bigint) as user_id",
        "concat('host-', cast(pmod(xxhash64(id, 1), 50) as string)) as host",
        "concat('/item/', cast(pmod(xxhash64(id, 2), 5000) as string)) as path",
        "cast(case when id % 97 = 0 then 500 else 200 end as int) as status",
        "cast(pmod(xxhash64(id, 3), 100000) as double) / 100 as latency_ms",
    )


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(works: Mapping[str, Callable[[], object]], rounds: int = ROUNDS) -> dict[str, float]:
    """The median of each, after one round that warms everything up."""
    for work in works.values():
        work()
    taken = [{name: seconds(work) for name, work in works.items()} for _ in range(rounds)]
    return {name: round(median(turn[name] for turn in taken), 3) for name in works}


def writers(frame: DataFrame, folder: Path) -> dict[str, Callable[[], object]]:
    """The same rows by day, sorted by id, with a Bloom filter on the id."""

    def ours() -> None:
        shutil.rmtree(folder / "ours", ignore_errors=True)
        nf.Table.create(str(folder / "ours"), SCHEMA, key="request_id", partition_by=["day(ts)"]).append(frame)

    def spark_parquet() -> None:
        routed = (
            frame.selectExpr("*", "to_date(ts) as day").repartitionByRange("day", "request_id").sortWithinPartitions("day", "request_id")
        )
        writer = routed.write.mode("overwrite").partitionBy("day").option("compression", "zstd")
        writer.option("parquet.bloom.filter.enabled#request_id", "true").parquet(str(folder / "spark"))

    return {"needlefish append": ours, "Spark's Parquet writer": spark_parquet}


def scanners(folder: Path) -> dict[str, dict[str, Callable[[], object]]]:
    """Questions, each asked of everybody over the files that the append wrote."""
    table = nf.Table.open(str(folder / "ours"))
    files = [str(path) for path in (folder / "ours" / "data").rglob("*.parquet")]
    dataset = ds.dataset(files)
    known = table.scan(columns=["request_id"], partitions={"day": "2026-11-03"}).to_arrow()["request_id"][17].as_py()
    one_day = "ts >= '2026-11-03 00:00:00+00' and ts < '2026-11-04 00:00:00+00'"

    def duck(query: str) -> Callable[[], object]:
        connection = duckdb.connect()
        return lambda: connection.execute(query.format(files=f"read_parquet({files})")).fetchall()

    return {
        "all rows, two columns": {
            "needlefish": lambda: table.scan(columns=["ts", "status"]).count(),
            "pyarrow dataset": lambda: sum(batch.num_rows for batch in dataset.to_batches(columns=["ts", "status"])),
        },
        "status = 500 on one day": {
            "needlefish": lambda: table.scan(columns=["request_id"], where=f"status = 500 and {one_day}").count(),
            "DuckDB": duck(f"select request_id from {{files}} where status = 500 and {one_day}"),
        },
        "one row by its id": {
            "needlefish find": lambda: table.find(request_id=known).to_pylist(),
            "needlefish scan": lambda: table.scan(where=f"request_id = '{known}'").to_pylist(),
            "DuckDB": duck(f"select * from {{files}} where request_id = '{known}'"),
        },
    }


def report(result: Mapping[str, Mapping[str, float]]) -> Table:
    shown = Table("what", "who", "seconds", "of the first", title="Pipeline")
    for what, each in result.items():
        first = next(iter(each.values()))
        for who, taken in each.items():
            shown.add_row(what, who, f"{taken:.3f}", f"{taken / first:.2f}x")
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    rows = parser.parse_args(arguments).rows
    before = machine()
    spark = nf.spark_session(app="needlefish benchmark")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Cached, so that making the rows is nobody's time.
        frame = requests(spark, rows).cache()
        frame.count()
        result = {"write": in_turns(writers(frame, folder))}
        result |= {question: in_turns(peers) for question, peers in scanners(folder).items()}
    console().print(report(result))
    keep("pipeline", {"rows": rows, "seconds": result}, before)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
