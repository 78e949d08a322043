"""Evolution through Spark: frames over all schemas a table has had, appends under today's, and runs that merge on the way."""

from decimal import Decimal

import pytest
from pyspark.sql import Row, SparkSession

import needlefish as nf
from needlefish.model.log import TableState

SCHEMA = "id int, small smallint, u bigint, f float, d decimal(5,2), gone string, place struct<lat:double>"


def rows_of(table: nf.Table) -> list[dict[str, object]]:
    return sorted(table.scan().to_pylist(), key=lambda row: str(row["id"]))


def test_a_frame_over_every_schema_reads_as_a_scan_does(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(
        uri, "id int32, small int16, u uint8, f float, d decimal(5,2), gone string, place struct<lat:double>",
        key="id", partition_by=["bucket(small, 2)"], bloom_columns=["d"],
    )  # fmt: skip
    first = spark.createDataFrame([(1, -5, 200, 0.5, Decimal("1.25"), "a", Row(lat=1.5)), (2, 7, 0, None, None, None, None)], SCHEMA)
    table.append(first)
    table.evolve(widen={"id": "int64", "small": "int64", "u": "uint64", "f": "double", "d": "decimal(20,2)"}, rename={"id": "key"})
    wide = "key bigint, small bigint, u decimal(20,0), f double, d decimal(20,2), gone string"
    table.append(spark.createDataFrame([(2**40, 2**40, Decimal(2**64 - 1), 0.1, Decimal("123456789012345678.25"), "b")], wide))
    table.evolve(drop=["gone", "place"], add={"gone": "bigint", "later": "string"}, reorder=["later", "key"])
    table.append(spark.createDataFrame([("z", 3, 5, 9)], "later string, key bigint, small bigint, gone bigint"))

    expected = [
        {"later": None, "key": 1, "small": -5, "u": 200, "f": 0.5, "d": Decimal("1.25"), "gone": None},
        {"later": None, "key": 2**40, "small": 2**40, "u": 2**64 - 1, "f": 0.1, "d": Decimal("123456789012345678.25"), "gone": None},
        {"later": None, "key": 2, "small": 7, "u": 0, "f": None, "d": None, "gone": None},
        {"later": "z", "key": 3, "small": 5, "u": None, "f": None, "d": None, "gone": 9},
    ]
    scanned = sorted(table.scan().to_pylist(), key=lambda row: str(row["key"]))
    assert scanned == expected
    frame = table.to_spark(spark)
    assert (
        frame.schema.simpleString() == "struct<later:string,key:bigint,small:bigint,u:decimal(20,0),f:double,d:decimal(20,2),gone:bigint>"
    )
    as_spark = [row | {"u": None if row["u"] is None else Decimal(row["u"])} for row in expected]
    assert sorted((row.asDict() for row in frame.collect()), key=lambda row: str(row["key"])) == as_spark
    assert frame.where("gone = 9 or f = 0.1").count() == 2
    for row in expected:
        assert [found["small"] for found in table.find(key=row["key"]).to_pylist()] == [row["small"]]
    assert table.find(d=Decimal("1.25")).to_pylist()[0]["key"] == 1
    assert len(table.find(gone=9)) == 1
    assert [row["key"] for row in table.scan(where="small = -5").to_pylist()] == [1]

    old = nf.Table.open(uri, version=min(entry.version for entry in table.history() if entry.action == "append"))
    assert [row["gone"] for row in rows_of(old)] == ["a", None]
    assert sorted(row["gone"] or "" for row in old.to_spark(spark).collect()) == ["", "a"]


def test_an_append_with_yesterdays_columns_is_refused(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, "id int32, n int32", key="id")
    stale = nf.Table.open(uri)
    table.evolve(rename={"n": "m"})
    df = spark.createDataFrame([(1, 2)], "id int, n int")
    with pytest.raises(nf.InvalidError, match="column 'n', which the table does not have"):
        table.append(df)
    with pytest.raises(nf.ConflictError, match=r"redefined between version 0 and \d"):
        stale.append(df)
    assert nf.Table.open(uri).scan().to_pylist() == []


def test_appends_merge_their_runs(spark: SparkSession, uri: str) -> None:
    """One append with a run of filters for each of many tasks is enough to be worth a merge."""
    table = nf.Table.create(uri, "id bigint", key="id", partition_by=["bucket(id, 12)"])
    df = spark.range(3_000).repartition(12)
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "12")
    try:
        result = table.append(df)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
        spark.conf.unset("spark.sql.shuffle.partitions")
    assert [entry.action for entry in table.history()] == ["merge", "append", "create"]
    assert result.version == table.history()[1].version
    state: TableState = table._state
    assert [len(state.runs_of(kind)) for kind in ("files", "column_stats", "bloom_filters")] == [1, 1, 1]
    assert table.scan().count() == table.to_spark(spark).count() == 3_000
    assert table.find(id=1_234).to_pylist() == [{"id": 1_234}]
