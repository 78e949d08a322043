"""The data source, once through: read with filters, SQL, append, upsert, a new table, a stream in and out; wherever Spark runs."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import needlefish as nf

SCHEMA = "id bigint, host string, n int"
FORMAT = "needlefish"


@pytest.fixture(autouse=True)
def _known(spark: SparkSession) -> None:
    nf.register(spark)


@pytest.fixture
def table(spark: SparkSession, uri: str) -> nf.Table:
    made = nf.Table.create(uri, SCHEMA, key="id", properties={"chunkset_rows": 50, "granule_rows": 10})
    made.append(spark.range(200).selectExpr("id", "if(id % 2 = 0, 'a', 'b') as host", "1 as n"))
    return made


def ids(table: nf.Table) -> list[int]:
    return sorted(nf.Table.open(table.uri).scan(columns=["id"]).to_arrow()["id"].to_pylist())


def test_rows_are_read_by_filters_and_by_sql(spark: SparkSession, table: nf.Table) -> None:
    found = spark.read.format(FORMAT).load(table.uri)
    assert found.count() == 200
    assert found.where("id = 77").toArrow().to_pylist() == [{"id": 77, "host": "b", "n": 1}]
    assert found.where("id in (5, 9, 900) or id >= 198").count() == 4
    found.createOrReplaceTempView("seen")
    assert spark.sql("select host, count(*) as c from seen where id < 11 group by host order by host").toArrow().to_pylist() == [
        {"host": "a", "c": 6},
        {"host": "b", "c": 5},
    ]


def test_rows_are_appended_and_upserted(spark: SparkSession, table: nf.Table) -> None:
    more = spark.range(200, 260, 1, 3).selectExpr("id", "'c' as host", "2 as n")
    more.write.format(FORMAT).mode("append").save(table.uri)
    assert ids(table) == list(range(260))
    newer = spark.range(250, 270, 1, 3).selectExpr("id", "'d' as host", "3 as n")
    newer.write.format(FORMAT).mode("append").option("operation", "upsert").option("orderBy", "n").save(table.uri)
    assert ids(table) == list(range(270))
    assert table.refresh().find(id=255).to_arrow()["host"].to_pylist() == ["d"]
    assert spark.read.format(FORMAT).load(table.uri).where("n = 3").count() == 20


def test_a_new_path_becomes_a_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "new")
    spark.range(30).selectExpr("id", "'x' as host").write.format(FORMAT).mode("append").option("key", "id").save(path)
    assert nf.Table.open(path).find(id=29).to_pylist() == [{"id": 29, "host": "x"}]


def test_changes_stream_from_one_table_to_another(spark: SparkSession, table: nf.Table, tmp_path: Path) -> None:
    copy = nf.Table.create(str(tmp_path / "copy"), SCHEMA, key="id")
    changes = spark.readStream.format(FORMAT).option("startingVersion", "0").load(table.uri)
    inserted = changes.where("_change != 'delete'").select("id", "host", "n")
    query = (
        inserted.writeStream.format(FORMAT)
        .option("path", copy.uri)
        .option("operation", "upsert")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert ids(copy) == list(range(200))
