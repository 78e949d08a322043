"""`examples/streaming.py` in a real query that fails before and after the table's commit: replays do nothing, nothing is left out."""

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import needlefish as nf

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples import streaming

START = datetime(2026, 11, 1, tzinfo=UTC)
FILES = 3
FILE_ROWS = 40
STEP = 25


def write_file(folder: Path, number: int) -> dict[int, int]:
    """Keys that overlap with the file before; each file is newer than those before it. Returns the values by key."""
    ids = list(range(number * STEP, number * STEP + FILE_ROWS))
    values = [1_000 * number + one for one in ids]
    moments = pa.array([START + timedelta(hours=number)] * len(ids), pa.timestamp("us", "UTC"))
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": ids, "ts": moments, "value": values}), folder / f".{number}")
    # Streams take a file as it is when they first see it, so that it must appear whole; and they take older files first.
    (folder / f".{number}").rename(folder / f"{number}.parquet")
    return dict(zip(ids, values, strict=True))


def rows_of(table: nf.Table) -> list[tuple[object, object]]:
    return sorted((row["id"], row["value"]) for row in table.refresh().scan(columns=["id", "value"]).to_pylist())


Broken = Callable[[nf.Table, str], Callable[[DataFrame, int], None]]


def before_the_commit(table: nf.Table, query: str) -> Callable[[DataFrame, int], None]:
    def fail(rows: DataFrame, epoch: int) -> None:
        if epoch == 1:
            raise RuntimeError("broken on purpose")
        streaming_into(table, query)(rows, epoch)

    return fail


def after_the_commit(table: nf.Table, query: str) -> Callable[[DataFrame, int], None]:
    def fail(rows: DataFrame, epoch: int) -> None:
        streaming_into(table, query)(rows, epoch)
        if epoch == 1:
            raise RuntimeError("broken on purpose")

    return fail


streaming_into = streaming.into


@pytest.mark.parametrize(("broken", "committed"), [(before_the_commit, 1), (after_the_commit, 2)], ids=["before", "after"])
def test_a_query_that_fails_goes_on_where_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], broken: Broken, committed: int
) -> None:
    expected: dict[int, int] = {}
    for number in range(FILES):
        expected |= write_file(tmp_path / "in", number)
    table = streaming.opened(str(tmp_path / "table"))
    arguments = (spark, str(tmp_path / "in"), table, str(tmp_path / "checkpoint"))
    monkeypatch.setattr(streaming, "into", broken)
    with pytest.raises(StreamingQueryException, match="broken on purpose"):
        streaming.start(*arguments).awaitTermination()
    assert table.refresh().describe().batches == {streaming.QUERY: committed - 1}
    monkeypatch.undo()
    capsys.readouterr()
    streaming.start(*arguments).awaitTermination()
    said = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in said] == ["epoch 1", "epoch 2"]
    assert said[0].startswith("epoch 1: was there already") == (broken is after_the_commit)
    assert rows_of(table) == sorted(expected.items())
    batches = [entry.batch.number for entry in table.history() if entry.batch is not None]
    assert batches == [2, 1, 0]
    assert table.describe().batches == {streaming.QUERY: FILES - 1}
    assert table.verify().ok


def test_a_query_without_news_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0)
    table = streaming.opened(str(tmp_path / "table"))
    for _ in range(2):
        streaming.start(spark, str(tmp_path / "in"), table, str(tmp_path / "checkpoint")).awaitTermination()
        assert len(table.refresh().history(steps=True)) == 3, "create, claim and upsert"
