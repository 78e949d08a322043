"""Services on Spark: plans too large for this process, interrupted and cancelled ones, and what a handle returns."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import needlefish as nf
from needlefish.api import worker
from needlefish.config import StoreConfig
from needlefish.errors import FencedError, JobFailedError
from needlefish.model.log import TableState
from needlefish.services.execute import ServiceResult, Worker, execute
from needlefish.services.rewrite import RewritePlan
from needlefish.services.schedule import cancel
from needlefish.services.stopping import Stop
from needlefish.spark import services
from needlefish.spark.errors import our_errors
from needlefish.spark.services import spark_worker
from needlefish.store import RetriedStore, open_store
from needlefish.table.task import Written
from needlefish.testing.changes import upsert_table
from needlefish.testing.services import orphans, schedule_compaction
from needlefish.testing.tables import append_rows, build_table, scan_table
from needlefish.timeline import read_newest

SCHEMA = "id string, host string, n int64"


def row(number: int, n: int = 0) -> dict[str, Any]:
    return {"id": f"k{number:04}", "host": "ab"[number % 2], "n": n}


@pytest.fixture
def store(uri: str) -> RetriedStore:
    """600 rows in six small files of each partition, a fifth of them replaced."""
    found = open_store(StoreConfig(uri=uri))
    properties = {"granule_rows": 50, "chunkset_rows": 200, "heartbeat_seconds": 0.2}
    state = build_table(found, SCHEMA, "id", partition_by="host", indexes=None, properties=properties)
    for first in range(0, 600, 100):
        state = append_rows(found, state, [row(number) for number in range(first, first + 100)])
    upsert_table(found, state, [row(number, 1) for number in range(0, 600, 5)])
    return found


def rows(store: RetriedStore) -> dict[str, int]:
    found = scan_table(store, read_newest(store))[0].to_pylist()
    assert len(found) == len({one["id"] for one in found})
    return {one["id"]: one["n"] for one in found}


ROWS = {f"k{number:04}": 0 if number % 5 else 1 for number in range(600)}


@pytest.fixture
def on_spark(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> list[int]:
    """Every plan is too large for this process; counts those that Spark has done."""
    done: list[int] = []
    original = worker._on_spark

    def counted(*arguments: Any) -> Worker:
        done.append(1)
        return original(*arguments)

    monkeypatch.setattr(worker, "_fits_here", lambda *_: False)
    monkeypatch.setattr(worker, "_on_spark", counted)
    return done


def test_a_large_plan_runs_on_spark(store: RetriedStore, on_spark: list[int]) -> None:
    table = nf.Table.open(store.uri)
    before = table.describe()
    result = table.run("compaction")
    assert isinstance(result, ServiceResult)
    assert (on_spark, result.folded, result.repeated) == ([1], before.skipped, False)
    assert result.files < result.files_before
    clustered = table.run("clustering", by=["n", "id"], zorder=True)
    assert clustered is not None
    assert (table.describe().rows, table.describe().skipped, on_spark) == (600, 0, [1, 1])
    assert table.verify().ok
    assert rows(store) == ROWS


def test_a_small_plan_runs_here(store: RetriedStore) -> None:
    def refuse() -> SparkSession:
        raise AssertionError("Spark is not needed")

    state, plan = schedule_compaction(store, read_newest(store))
    result = execute(store, state, plan.id, worker.worker_for(store, refuse))[1]
    assert result.folded == 120
    assert rows(store) == ROWS


def endless(monkeypatch: pytest.MonkeyPatch, begun: Callable[[], None]) -> None:
    """In the place of a rewrite, a job that ends only when it is interrupted."""

    def job(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for _ in range(6_000):
                time.sleep(0.1)
            yield batch

    def written(spark: SparkSession, store: RetriedStore, state: TableState, plan: RewritePlan, owner: str) -> Written:
        begun()
        with our_errors():
            spark.range(1).mapInArrow(job, "id bigint").toArrow()
        raise AssertionError("nobody has interrupted the job")

    monkeypatch.setattr(services, "written_on_spark", written)


def test_a_cancelled_plan_stops_while_its_job_runs(spark: SparkSession, store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    state, plan = schedule_compaction(store, read_newest(store))
    endless(monkeypatch, lambda: cancel(store, read_newest(store), plan.id))
    with pytest.raises(FencedError, match=f"instant {plan.id} was cancelled"):
        execute(store, state, plan.id, spark_worker(spark, store))
    after = read_newest(store)
    assert after.instants == ()
    assert orphans(store, after) == set()
    assert spark.range(3).count() == 3, "the session is as it was"


def test_asked_to_stop_a_job_is_interrupted_and_undone(spark: SparkSession, store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = Stop(0)
    endless(monkeypatch, stop.ask)
    state, plan = schedule_compaction(store, read_newest(store), cancellable=False)
    found = spark_worker(spark, store)
    with pytest.raises(JobFailedError), stop.interrupting(found.interrupt):
        execute(store, state, plan.id, found)
    # An immutable plan stands, as if nobody had tried.
    after = read_newest(store)
    assert [(one.id, one.claim) for one in after.instants] == [(plan.id, None)]
    monkeypatch.undo()
    assert execute(store, after, plan.id, found)[1].folded == 120
    assert rows(store) == ROWS
