"""Tagging many keys against many files: `python -m benchmarks.tag`.

A million keys, nine in ten of them present, against 1,000 files of 20,000 rows whose random ids overlap completely, so that
ranges rule out nothing and filters everything. Prints times and the peak memory of every process, checks every tag
against where the row was written, and fails if a process went over 2 GB.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import needlefish as nf
from benchmarks.processes import watched
from benchmarks.record import keep, machine
from needlefish.config import StoreConfig
from needlefish.model.entries import ChunksetEntries
from needlefish.runtime import SYSTEM
from needlefish.store import open_store
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.commit import commit_append
from needlefish.table.task import RESULT_SCHEMA, collect, hand_back
from needlefish.testing.tables import build_table, sorted_batches
from needlefish.timeline import read_newest

SCHEMA = "id string, ts timestamp, user_id int64, status int32"
LIMIT_BYTES = 2_000_000_000
PRESENT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    files: int
    rows: int
    keys: int

    @property
    def present(self) -> int:
        """Keys taken from each file."""
        return int(self.keys * PRESENT) // self.files


def ids(rows: int, *seed: int) -> list[str]:
    letters = np.random.default_rng(seed).bytes(16 * rows).hex()
    return [letters[start : start + 32] for start in range(0, len(letters), 32)]


def rows_of(number: int, rows: int) -> pa.Table:
    chance = np.random.default_rng([2, number])
    moments = pa.array(chance.integers(1_793_000_000_000_000, 1_796_000_000_000_000, rows)).cast(pa.timestamp("us", tz="UTC"))
    users, status = chance.integers(0, 100_000, rows), chance.integers(200, 600, rows).astype(np.int32)
    return pa.table({"id": ids(rows, 1, number), "ts": moments, "user_id": users, "status": status})


def write_share(uri: str, numbers: Sequence[int], sizes: Sizes) -> tuple[pa.Table, pa.Table]:
    """Chunksets of some files, not yet committed, and the keys to look for with the places where they are."""
    store = open_store(StoreConfig(uri=uri))
    state = read_newest(store)
    plan = WritePlan(definition=state.definition, prev_max=state.version)
    expected: list[pa.Table] = []

    def written(number: int) -> Iterator[ChunksetEntries]:
        rows = rows_of(number, sizes.rows)
        for entry in write_chunksets(sorted_batches(rows, state.definition), plan, store, SYSTEM):
            expected.append(places(rows["id"], entry, sizes.present, number))
            yield entry

    entries = chain.from_iterable(map(written, numbers))
    results = pa.Table.from_batches(hand_back(entries, plan, store, SYSTEM), schema=RESULT_SCHEMA)
    return results, pa.concat_tables(expected)


def places(found: pa.ChunkedArray, entry: ChunksetEntries, count: int, number: int) -> pa.Table:
    """Some ids of one file, with their positions in its order."""
    ordered = found.take(pc.sort_indices(found))
    chosen = np.random.default_rng([3, number]).choice(len(ordered), count, replace=False)
    return pa.table(
        {"id": ordered.take(pa.array(chosen)), "at": pa.array([entry.info.id] * count), "place": pa.array(chosen.astype(np.int64))}
    )


def build(uri: str, sizes: Sizes) -> pa.Table:
    """The table, and the present keys with where they are."""
    store = open_store(StoreConfig(uri=uri))
    state = build_table(store, SCHEMA, "id", properties={"chunkset_rows": sizes.rows})
    workers = os.cpu_count() or 1
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        shares = list(pool.map(write_share, [uri] * workers, [range(n, sizes.files, workers) for n in range(workers)], [sizes] * workers))
    commit_append(store, state, collect(pa.concat_tables([results for results, _ in shares])))
    return pa.concat_tables([expected for _, expected in shares])


def write_keys(folder: Path, uri: str, sizes: Sizes) -> None:
    """Runs in a process of its own, so that none of this counts as the driver's memory."""
    present = build(uri, sizes)
    absent = sizes.keys - present.num_rows
    nowhere = pa.table({"id": ids(absent, 4), "at": pa.nulls(absent, pa.string()), "place": pa.nulls(absent, pa.int64())})
    keys = pa.concat_tables([present, nowhere])
    mixed = keys.take(pa.array(np.random.default_rng(5).permutation(keys.num_rows))).combine_chunks()
    folder.mkdir()
    for part in range(4):
        pq.write_table(
            mixed.slice(part * len(mixed) // 4, (part + 1) * len(mixed) // 4 - part * len(mixed) // 4), folder / f"{part}.parquet"
        )


def tag_once(spark: SparkSession, uri: str, keys: Path) -> tuple[float, dict[str, int]]:
    """Seconds for all tags, and how many are as they should be."""
    table = nf.Table.open(uri)
    started = time.perf_counter()
    tagged = table.tag(spark.read.parquet(str(keys)))
    found = _counts(tagged).collect()[0].asDict()
    return time.perf_counter() - started, found


def _counts(tagged: DataFrame) -> DataFrame:
    right = sf.col("chunkset").eqNullSafe(sf.col("at")) & sf.col("row").eqNullSafe(sf.col("place"))
    return tagged.agg(
        sf.count("*").alias("rows"),
        sf.count("chunkset").alias("present"),
        sf.count("partition").alias("placed"),
        sf.count_if(right).alias("right"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Exits with 1 when a tag is wrong or a process takes too much memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep the table here, and use it if it is there already")
    given = parser.parse_args(arguments)
    sizes = Sizes(files=given.files, rows=given.rows, keys=given.keys)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="needlefish-tag-"))
    uri, keys = str(folder / "table"), folder / "keys"
    try:
        started = time.perf_counter()
        if not keys.exists():
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                pool.submit(write_keys, keys, uri, sizes).result()
        print(f"built in {time.perf_counter() - started:.1f} s")
        return measure(uri, keys, sizes, given.runs)
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def measure(uri: str, keys: Path, sizes: Sizes, runs: int) -> int:
    # Half of the default heap is enough, and keeps the JVM with all that is not heap below the limit.
    spark = nf.spark_session(app="needlefish benchmark", config={"spark.driver.memory": "1g"})
    before = machine()
    with watched() as peaks:
        times, counts = zip(*(tag_once(spark, uri, keys) for _ in range(runs)), strict=True)
    found = peaks.by_name()
    spark.stop()
    report = {
        "files": sizes.files,
        "rows_per_file": sizes.rows,
        "keys": sizes.keys,
        "seconds": [round(seconds, 2) for seconds in times],
        "counts": counts[0],
        "peak_bytes": found,
        "limit_bytes": LIMIT_BYTES,
    }
    path = keep("tag", report, before)
    for number, seconds in enumerate(times, 1):
        print(f"run {number}: {seconds:.1f} s for {sizes.keys:,} keys")
    for name, sizes_bytes in found.items():
        print(f"{name}: peak {', '.join(f'{size / 1e6:,.0f} MB' for size in sizes_bytes)}")
    right = all(count["rows"] == count["right"] == sizes.keys for count in counts)
    small = all(size <= LIMIT_BYTES for listed in found.values() for size in listed)
    print(f"tags {'right' if right else 'WRONG: ' + str(counts)}, memory {'within' if small else 'OVER'} {LIMIT_BYTES / 1e9:.0f} GB")
    print(f"load average at the start {before['load_before']}; written to {path}")
    return 0 if right and small else 1


if __name__ == "__main__":
    sys.exit(main())
