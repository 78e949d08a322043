"""Upserts that keep the columns which a frame lacks, on Spark: what scans, finds and frames then show."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.store import open_store
from needlefish.testing.tables import build_table

SCHEMA = "id string, host string, n int64, big uint64, tags list<string>"
SMALL = {"chunkset_rows": 300, "granule_rows": 50}
Row = dict[str, Any]


def row(number: int, **values: Any) -> Row:
    key = f"{number * 7919 % 100_003:06}"
    return {"id": key, "host": f"h {number % 3}", "n": number, "big": 2**64 - 1 - number, "tags": ["x", None]} | values


def build(uri: str, count: int = 1_500, **table: Any) -> nf.Table:
    properties = SMALL | table.pop("properties", {})
    build_table(open_store(StoreConfig(uri=uri)), SCHEMA, "id", map(row, range(count)), properties=properties, **table)
    return nf.Table.open(uri)


def check(spark: SparkSession, table: nf.Table, expected: list[Row]) -> None:
    """Every way to read shows the same rows, and no claim is broken."""
    by_key = {(one["id"], one["host"]): one for one in expected}
    assert {(one["id"], one["host"]): one for one in table.scan().to_pylist()} == by_key
    df = table.to_spark(spark)
    assert {(one.id, one.host): one.n for one in df.collect()} == {key: one["n"] for key, one in by_key.items()}
    assert df.count() == len(expected) == table.describe().rows
    wanted = [one["id"] for one in expected[:20]]
    assert {one["id"]: one for one in table.find(id=wanted).to_pylist()} == {one["id"]: one for one in expected[:20]}
    assert not table.verify().problems


def frame(spark: SparkSession, rows: list[Row], schema: str) -> DataFrame:
    return spark.createDataFrame([tuple(one.values()) for one in rows], schema)


def test_several_files_and_a_point_index(spark: SparkSession, uri: str) -> None:
    table = build(uri, indexes=[nf.PointIndex("id")])
    updates = [{"id": row(number)["id"], "n": -number} for number in range(0, 1_500, 7)]
    result = table.upsert(frame(spark, [*updates, {"id": "new", "n": 5}], "id string, n long"), columns="present")
    assert (result.replaced, result.inserted, result.version) == (len(updates), 1, table.version)
    assert result.requests > 0
    expected = [row(number, n=-number if number % 7 == 0 else number) for number in range(1_500)]
    check(spark, table, [*expected, {"id": "new", "host": None, "n": 5, "big": None, "tags": None}])
    # Nothing that tasks handed each other is left.
    assert not list(Path(uri).glob("_needlefish/work/**/*.arrow"))


def test_a_frame_that_gives_other_rows_each_time(spark: SparkSession, uri: str) -> None:
    table = build(uri, 200)
    df = spark.createDataFrame([(row(number)["id"],) for number in range(100)], "id string").selectExpr(
        "id", "cast(rand() * 1e9 as long) n"
    )
    assert table.upsert(df, columns="present").replaced == 100
    found = table.scan().to_pylist()
    assert len({one["id"] for one in found}) == len(found) == 200
    assert {one["id"]: one["big"] for one in found} == {row(number)["id"]: row(number)["big"] for number in range(200)}


def test_late_rows_deletes_and_duplicates(spark: SparkSession, uri: str) -> None:
    table = build(uri, 600, partition_by="host")
    keys = [row(number)["id"] for number in range(600)]
    rows = [
        {"id": keys[10], "host": "h 1", "n": 9, "gone": False},
        {"id": keys[11], "host": "h 2", "n": 50, "gone": False},
        {"id": keys[11], "host": "h 2", "n": 40, "gone": False},
        {"id": keys[12], "host": "h 0", "n": 50, "gone": True},
        {"id": keys[13], "host": "h 1", "n": 1, "gone": True},
        {"id": keys[14], "host": "h 0", "n": 50, "gone": None},
    ]
    df = frame(spark, rows, "id string, host string, n long, gone boolean")
    result = table.upsert(df, "n", ("feed", 1), deleted_by="gone", columns="present")
    assert (result.late, result.replaced, result.deleted, result.duplicates, result.inserted) == (1, 1, 1, 1, 1)
    expected = [row(number, n=50 if number == 11 else number) for number in range(600) if number != 12]
    # Another partition: another row.
    check(spark, table, [*expected, {"id": keys[14], "host": "h 0", "n": 50, "big": None, "tags": None}])
    assert table.upsert(df, "n", ("feed", 1), deleted_by="gone", columns="present").repeated


def test_global_keys_stay_and_move(spark: SparkSession, uri: str) -> None:
    table = build(uri, 600, partition_by="host", properties={"global_keys": True})
    updates = [{"id": row(number)["id"], "n": -number} for number in range(300)]
    assert table.upsert(frame(spark, updates, "id string, n long"), columns="present").replaced == 300
    moves = [{"id": row(number)["id"], "host": "moved"} for number in range(100)]
    assert table.upsert(frame(spark, moves, "id string, host string"), columns="present").replaced == 100
    expected = [row(number, n=-number if number < 300 else number) for number in range(600)]
    check(spark, table, [one | {"host": "moved"} if number < 100 else one for number, one in enumerate(expected)])


def test_whole_rows_take_the_short_way(spark: SparkSession, uri: str) -> None:
    table = build(uri, 100)
    result = table.upsert(table.to_spark(spark).limit(10), columns="present")
    assert (result.replaced, "complete" in result.stages) == (10, False)


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("id string, n long", {"columns": "some"}, "columns is 'some'; give 'all', or 'present'"),
        ("n long", {"columns": "present"}, "df lacks column 'id'"),
        ("id string, x long", {"columns": "present"}, "df has column 'x', which the table does not have"),
        ("id string, n string", {"columns": "present"}, "df column 'n' is string, but the table has int64"),
        ("id string, host string", {"columns": "present", "order_by": "n"}, "order_by names column 'n', which df lacks"),
    ],
)
def test_refused_before_anything_is_written(spark: SparkSession, uri: str, schema: str, options: Any, message: str) -> None:
    table = build(uri, 10)
    before = sorted(Path(uri).rglob("*"))
    with pytest.raises(InvalidError, match=message):
        table.upsert(spark.createDataFrame([], schema), **options)
    assert sorted(Path(uri).rglob("*")) == before


def test_a_new_key_without_what_it_needs(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, "id string not null, must string not null, n int64", "id")
    table.append(spark.createDataFrame([("a", "m", 1)], "id string, must string, n long"))
    with pytest.raises(InvalidError, match=r"df lacks column 'must'.*no row of the key \{'id': 'b'\}"):
        table.upsert(spark.createDataFrame([("a", 2), ("b", 2)], "id string, n long"), columns="present")
    table.upsert(spark.createDataFrame([("a", 2)], "id string, n long"), columns="present")
    assert table.scan().to_pylist() == [{"id": "a", "must": "m", "n": 2}]
