"""What goes wrong on clusters, in the middle of an upsert: an executor that is killed. Run by test_everywhere.py."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import needlefish as nf
from needlefish.testing.clusters import executor_pids

SCHEMA = "id bigint, note string"
STORED, DELIVERED, TASKS = 20_000, 30_000, 12
_PATIENCE_SECONDS = 300


@pytest.fixture
def table(spark: SparkSession, uri: str) -> nf.Table:
    made = nf.Table.create(uri, SCHEMA, key="id", properties={"chunkset_rows": 4_000, "granule_rows": 1_000})
    made.append(spark.range(STORED).selectExpr("id", "'old' as note"))
    return made


@contextmanager
def many_tasks(spark: SparkSession) -> Iterator[None]:
    """As many tasks that write as there are shuffle partitions, however small."""
    settings = {"spark.sql.shuffle.partitions": str(TASKS), "spark.sql.adaptive.coalescePartitions.enabled": "false"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value or "")


def data_files(uri: str) -> set[Path]:
    return set(Path(uri, "data").rglob("*.parquet"))


class Killer(threading.Thread):
    """Kills one executor as soon as `is_time`."""

    def __init__(self, spark: SparkSession, is_time: Callable[[], bool]) -> None:
        super().__init__(daemon=True)
        self._application = str(spark.conf.get("spark.app.id"))
        self._is_time = is_time
        self.killed: int | None = None

    def run(self) -> None:
        victim = executor_pids(self._application)[0]
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._is_time() and time.monotonic() < deadline:
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)
        self.killed = victim


def test_an_executor_is_killed_in_mid_upsert(spark: SparkSession, table: nf.Table) -> None:
    application = str(spark.conf.get("spark.app.id"))
    assert len(executor_pids(application)) == 2
    before = data_files(table.uri)
    first = STORED - DELIVERED // 3
    rows = spark.range(first, first + DELIVERED, 1, 4).selectExpr("id", "'new' as note")
    killer = Killer(spark, lambda: data_files(table.uri) != before)
    killer.start()
    with many_tasks(spark):
        result = table.upsert(rows)
    killer.join(_PATIENCE_SECONDS)
    assert killer.killed is not None
    assert killer.killed not in executor_pids(application)
    assert (result.replaced, result.inserted) == (STORED - first, DELIVERED - (STORED - first))
    check(table, first)


def check(table: nf.Table, first: int) -> None:
    """Every row once, by each way to read it."""
    stored = nf.Table.open(table.uri).scan().to_arrow()
    expected = {number: "old" if number < first else "new" for number in range(first + DELIVERED)}
    assert stored.num_rows == len(expected)
    assert dict(zip(stored["id"].to_pylist(), stored["note"].to_pylist(), strict=True)) == expected
    assert table.find(id=[first - 1, first, STORED]).to_arrow().num_rows == 3
    assert table.verify().problems == ()
