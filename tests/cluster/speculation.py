"""Tasks that run twice at the same time, both to the end: no row twice. Run by test_everywhere.py, with speculation on."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import needlefish as nf
from needlefish.table.upsert.plan import ChangePlan
from needlefish.table.upsert.write import UpsertTask

SCHEMA = "id bigint, note string"
_PATIENCE_SECONDS = 200
Batches = Iterator[pa.RecordBatch]


def twice(folder: Path, work: Callable[[Batches], Batches]) -> Callable[[Batches], Batches]:
    """`work`, of which partition 0 ends only when two attempts have done it. A function inside, which travels whole."""
    folder.mkdir()
    place, patience = str(folder), _PATIENCE_SECONDS

    def wait(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        done = list(work(batches))
        if context.partitionId() == 0:
            Path(place, str(context.taskAttemptId())).touch()
            deadline = time.monotonic() + patience
            while len(list(Path(place).iterdir())) < 2:
                assert time.monotonic() < deadline, "no second attempt came"
                time.sleep(0.02)
        yield from done

    return wait


def test_both_attempts_of_a_task_write(spark: SparkSession, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark.conf.get("spark.speculation") == "true"
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    table = nf.Table.create(uri, SCHEMA, key="id", properties={"chunkset_rows": 1_000, "granule_rows": 200})
    table.append(spark.range(0, 4_000, 1, 4).selectExpr("id", "'old' as note"))
    known = set(Path(uri, "data").rglob("*.parquet"))

    def slow_writer(plan: ChangePlan) -> Any:
        return SimpleNamespace(__call__=twice(tmp_path / "writers", UpsertTask(plan=plan).__call__))

    monkeypatch.setattr("needlefish.spark.changes.UpsertTask", slow_writer)
    rows = spark.range(2_000, 6_000, 1, 4).selectExpr("id", "'new' as note")
    result = table.upsert(rows.mapInArrow(twice(tmp_path / "sources", lambda batches: batches), SCHEMA))

    assert len(list((tmp_path / "sources").iterdir())) >= 2
    assert len(list((tmp_path / "writers").iterdir())) >= 2
    # The files of the attempt that lost are orphans: there, and no part of the table.
    assert len(set(Path(uri, "data").rglob("*.parquet")) - known) > result.files
    assert (result.replaced, result.inserted) == (2_000, 2_000)
    stored = nf.Table.open(uri).scan().to_arrow()
    assert sorted(zip(stored["id"].to_pylist(), stored["note"].to_pylist(), strict=True)) == [
        (number, "old" if number < 2_000 else "new") for number in range(6_000)
    ]
    assert table.to_spark(spark).count() == 6_000
    assert table.verify().problems == ()
