"""Everything that runs on Spark, once through: the same functions on a local session, on a cluster and over Spark Connect."""

import re
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.model.instant import InstantId
from needlefish.services.execute import execute
from needlefish.spark.progress import JobProgress
from needlefish.spark.services import spark_worker
from needlefish.store import open_store
from needlefish.testing.s3 import S3Server
from needlefish.timeline import read_newest

SCHEMA = "id bigint, host string, n int, note string"
_PATIENCE_SECONDS = 120
SMALL = {"chunkset_rows": 100, "granule_rows": 20}
Rows = list[tuple[Any, ...]]


def rows_of(ids: Iterable[int], note: str = "first", n: int = 1) -> Rows:
    return [(number, "ab"[number % 2], n, f"{note} {number}") for number in ids]


def frame(spark: SparkSession, rows: Rows, schema: str = SCHEMA) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def seen(table: nf.Table) -> Rows:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


@pytest.fixture
def table(spark: SparkSession, uri: str) -> nf.Table:
    """400 rows in two partitions and some chunksets."""
    made = nf.Table.create(uri, SCHEMA, key="id", partition_by=["host"], properties=SMALL)
    result = made.append(frame(spark, rows_of(range(400))))
    assert (result.rows, result.version) == (400, made.version)
    assert result.files >= 4
    return made


def test_executors_run_what_was_shipped(spark: SparkSession, kind: str) -> None:
    """On other machines, and in a Python that does not have us, our code comes out of the zip alone."""

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import needlefish

        list(batches)
        yield pa.RecordBatch.from_pydict({"file": [needlefish.__file__]})

    files = set(spark.range(0, 8, 1, 4).mapInArrow(where, "file string").toArrow()["file"].to_pylist())
    if kind == "local":
        assert files == {nf.__file__}
    else:
        # Over Connect each session has a folder of its own, beside what the server was started with.
        session = r"/[0-9a-f]{8}-[0-9a-f-]{27}" if kind == "connect" else ""
        assert files
        assert all(re.search(rf"{session}/needlefish\.zip/needlefish/__init__\.pyc?$", file) for file in files), files


def test_an_append_is_seen_by_every_reader(spark: SparkSession, table: nf.Table) -> None:
    assert seen(table) == rows_of(range(400))
    assert sorted(tuple(row.values()) for row in table.to_spark(spark).toArrow().to_pylist()) == rows_of(range(400))
    assert table.find(id=77).to_pylist() == [{"id": 77, "host": "b", "n": 1, "note": "first 77"}]


def test_an_upsert_replaces_and_an_older_row_does_not(spark: SparkSession, table: nf.Table) -> None:
    before = table.version
    newer, older = rows_of(range(300, 500), "newer", n=2), rows_of(range(10), "older", n=0)
    result = table.upsert(frame(spark, newer + older), order_by="n", batch=("suite", 1))
    assert (result.inserted, result.replaced, result.late, result.version) == (100, 100, 10, table.version)
    assert seen(table) == rows_of(range(300)) + newer
    assert sorted(tuple(row.values()) for row in table.to_spark(spark).toArrow().to_pylist()) == seen(table)
    assert sorted(table.find(id=[5, 305]).to_arrow()["note"].to_pylist()) == ["first 5", "newer 305"]
    assert seen(nf.Table.open(table.uri, version=before)) == rows_of(range(400))
    assert table.upsert(frame(spark, newer), order_by="n", batch=("suite", 1)).repeated


def test_a_change_feed_deletes_what_it_marks(spark: SparkSession, table: nf.Table) -> None:
    feed = [(*row, row[0] < 50) for row in rows_of(range(100), "changed", n=2)]
    result = table.upsert(frame(spark, feed, f"{SCHEMA}, gone boolean"), order_by="n", deleted_by="gone")
    assert (result.deleted, result.replaced, result.inserted) == (50, 50, 0)
    assert seen(table) == rows_of(range(50, 100), "changed", n=2) + rows_of(range(100, 400))


def test_columns_that_are_not_delivered_stay(spark: SparkSession, table: nf.Table) -> None:
    present = [(number, "ab"[number % 2], 7) for number in range(390, 410)]
    result = table.upsert(frame(spark, present, "id bigint, host string, n int"), columns="present")
    assert (result.replaced, result.inserted) == (10, 10)
    assert table.find(id=395).to_pylist() == [{"id": 395, "host": "b", "n": 7, "note": "first 395"}]
    assert table.find(id=405).to_pylist() == [{"id": 405, "host": "b", "n": 7, "note": None}]


def test_deletes_by_keys_and_by_condition(spark: SparkSession, table: nf.Table) -> None:
    by_keys = table.delete(frame(spark, [(number, "ab"[number % 2]) for number in range(390, 420)], "id bigint, host string"))
    assert (by_keys.deleted, by_keys.absent) == (10, 20)
    assert table.delete(where="id < 100").deleted == 100
    assert seen(table) == rows_of(range(100, 390))
    assert table.to_spark(spark).count() == 290


def test_tags_say_where_rows_are(spark: SparkSession, table: nf.Table) -> None:
    tagged = table.tag(frame(spark, rows_of(range(395, 405)))).orderBy("id").toArrow()
    assert [found is not None for found in tagged["chunkset"].to_pylist()] == [True] * 5 + [False] * 5
    assert tagged["partition"].to_pylist()[:2] == ["host=b", "host=a"]


def test_indexes_are_built_and_rebuilt(spark: SparkSession, table: nf.Table) -> None:
    built = table.create_index(nf.PointIndex("note"))
    assert built.keys == 400
    found = table.find(note="first 123")
    assert found.to_pylist() == [{"id": 123, "host": "b", "n": 1, "note": "first 123"}]
    assert table.rebuild(f"index/{built.index}").lost == ()
    assert table.rebuild("files").files == table.rebuild("column_stats").files
    assert table.find(note=["first 7", "no such"]).to_arrow().num_rows == 1
    assert table.verify().problems == ()


@pytest.mark.parametrize(("kind_of", "options"), [("compaction", {}), ("clustering", {"by": ["note"]})], ids=["compaction", "clustering"])
def test_rewrites_keep_every_row(spark: SparkSession, table: nf.Table, kind_of: str, options: dict[str, Any]) -> None:
    """As tasks, whatever the size: the same plan would run in this process."""
    table.upsert(frame(spark, rows_of(range(300, 500), "newer")))
    before = seen(table)
    plan = table.schedule(kind_of, **options)
    assert plan is not None
    store = open_store(StoreConfig(uri=table.uri))
    _, result = execute(store, read_newest(store), InstantId(plan), spark_worker(spark, store))
    assert (result.folded, result.action) == (100, kind_of)
    assert seen(table.refresh()) == before
    assert read_newest(store).totals.skipped == 0
    assert sorted(tuple(row.values()) for row in table.to_spark(spark).toArrow().to_pylist()) == before
    assert table.find(id=305).to_arrow()["note"].to_pylist() == ["newer 305"]
    assert not table.plans()


def test_files_that_are_there_are_adopted(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    for part in range(4):
        rows = rows_of(range(part * 100, part * 100 + 100))
        pq.write_table(
            pa.Table.from_pylist([dict(zip(("id", "host", "n", "note"), row, strict=True)) for row in rows]), folder / f"{part}.parquet"
        )
    adopted = nf.Table.adopt(str(folder), key="id")
    assert adopted.to_spark(spark).count() == 400
    assert adopted.find(id=250).to_arrow()["note"].to_pylist() == ["first 250"]


def test_refusals_of_tasks_arrive_as_ours(spark: SparkSession, table: nf.Table) -> None:
    before = table.version
    with pytest.raises(nf.InvalidError, match="key"):
        table.append(frame(spark, rows_of([900]) * 2))
    assert nf.Table.open(table.uri).scan().count() == 400
    assert table.version == before


def test_tasks_reach_an_object_store(spark: SparkSession, s3: S3Server, tmp_path: Path) -> None:
    config = s3.config(f"suite/{tmp_path.name}")
    table = nf.Table.create(config.uri, SCHEMA, key="id", properties=SMALL, storage_options=s3.options)
    table.append(frame(spark, rows_of(range(200))))
    table.upsert(frame(spark, rows_of(range(150, 250), "newer")))
    assert table.to_spark(spark).count() == 250
    assert table.find(id=199).to_arrow()["note"].to_pylist() == ["newer 199"]


def test_progress_is_told_while_a_job_runs(spark: SparkSession, tmp_path: Path) -> None:
    released, patience = str(tmp_path / "released"), _PATIENCE_SECONDS

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + patience
        while not Path(released).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield from batches

    progress = JobProgress(spark)
    job = threading.Thread(target=lambda: spark.range(0, 8, 1, 4).mapInArrow(wait, "id bigint").toArrow(), daemon=True)
    job.start()
    counts = None
    while counts is None and job.is_alive():
        time.sleep(0.05)
        counts = progress.tasks()
    Path(released).touch()
    job.join(patience)
    assert counts == (0, 4)
