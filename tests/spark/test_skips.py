"""Frames and tags of tables with hidden rows, against plain scans: whichever way Spark reads a file, hidden rows stay out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.spark import frame as frame_module
from needlefish.store import open_store
from needlefish.testing.s3 import S3Server
from needlefish.testing.tables import append_rows, build_table, skip_rows
from needlefish.timeline import read_newest

SMALL = {"chunkset_rows": 300, "granule_rows": 50}
SCHEMA = "id string, host string, n int64"
Row = Mapping[str, Any]


def rows_of(first: int, end: int) -> list[dict[str, object]]:
    return [{"id": f"{number * 7919 % 100_003:06}", "host": f"h {number % 3}", "n": number} for number in range(first, end)]


def build(uri: str, options: dict[str, str] | None = None, **table: Any) -> nf.Table:
    """1,500 rows in two versions, then updates that scatter over all files, and a delete of one stretch of keys."""
    store = open_store(StoreConfig(uri=uri, options=options or {}))
    properties = {**SMALL, **table.pop("properties", {})}
    state = build_table(store, SCHEMA, "id", rows_of(0, 1_000), properties=properties, **table)
    state = append_rows(store, state, rows_of(1_000, 1_500))
    state = skip_rows(
        store, state, numbered(lambda n: n % 7 == 0), rows=[row | {"n": -int(str(row["n"]))} for row in rows_of(0, 1_500)[::7]]
    )
    skip_rows(store, state, lambda row: str(row["id"]) < "020000")
    return nf.Table.open(uri, storage_options=options)


def numbered(says: Callable[[int], bool]) -> Callable[[Row], bool]:
    return lambda row: says(int(row["n"]))


def collected(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in df.collect())


def check(spark: SparkSession, table: nf.Table) -> None:
    """Before and after rows were hidden: the frame is the scan, whole, filtered, and with few columns."""
    for version in (2, table.version):
        then = nf.Table.open(table.uri, version=version)
        expected = sorted(tuple(row.values()) for row in then.scan().to_pylist())
        df = then.to_spark(spark)
        assert collected(df) == expected
        assert df.count() == len(expected) == then.describe().rows
        assert collected(df.where("n > 700").select("n")) == sorted((n,) for _, _, n in expected if n > 700)


@pytest.mark.parametrize(
    "table", [{}, {"partition_by": ["host"]}, {"partition_by": ["bucket(id, 3)"], "properties": {"global_keys": True}}]
)
def test_a_frame_is_what_a_scan_returns(spark: SparkSession, uri: str, table: dict[str, Any]) -> None:
    built = build(uri, **table)
    check(spark, built)
    assert built.describe().skipped > 300
    assert not built.verify().problems


def test_tags_name_the_rows_that_are_visible(spark: SparkSession, uri: str) -> None:
    table = build(uri)
    df = spark.createDataFrame([(row["id"],) for row in rows_of(0, 1_600)], "id string")
    tags = {row["id"]: (row["chunkset"], row["row"]) for row in table.tag(df).collect()}
    visible = {row["id"]: row["n"] for row in table.scan(columns=["id", "n"]).to_pylist()}
    assert {key for key, (chunkset, _) in tags.items() if chunkset is not None} == set(visible)
    for key, (chunkset, row) in tags.items():
        if chunkset is not None:
            stored = pq.read_table(f"{table.uri}/data/{chunkset}.parquet", columns=["id", "n"])
            assert (stored["id"][row].as_py(), stored["n"][row].as_py()) == (key, visible[key])


def test_the_reading_is_sparks_own_and_prunes_columns(spark: SparkSession, uri: str) -> None:
    plan = _plan(build(uri).to_spark(spark).select("n").where("n > 5"))
    assert "BroadcastHashJoin" in plan
    assert "PushedFilters: [IsNotNull(n), GreaterThan(n,5)]" in plan
    assert "ReadSchema: struct<n:bigint" in plan
    assert "PythonMapInArrow" not in plan


def _plan(df: DataFrame) -> str:
    return str(df._jdf.queryExecution().toString())


def test_more_bits_than_may_pass_the_driver_go_through_our_reader(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_module, "_MOST_BITS_BYTES", 600)
    table = build(uri)
    plan = _plan(table.to_spark(spark))
    assert "BroadcastHashJoin" in plan
    assert "MapInArrow" in plan
    check(spark, table)


def test_columns_that_came_and_went(spark: SparkSession, uri: str) -> None:
    table = build(uri)
    table.evolve(add={"more": "string"}, drop=["host"], rename={"n": "number"})
    store = open_store(StoreConfig(uri=uri))
    state = append_rows(store, read_newest(store), [{"id": "a", "number": 1, "more": "x"}])
    skip_rows(store, state, lambda row: int(str(row["number"])) % 11 == 1)
    table.refresh()
    assert collected(table.to_spark(spark)) == sorted(tuple(row.values()) for row in table.scan().to_pylist())
    assert table.to_spark(spark).count() == table.describe().rows


def test_a_column_named_like_sparks_own(spark: SparkSession, uri: str) -> None:
    store = open_store(StoreConfig(uri=uri))
    state = build_table(store, "id int64, _metadata string", "id", [{"id": number, "_metadata": "x"} for number in range(50)])
    skip_rows(store, state, lambda row: int(row["id"]) % 2 == 0)  # type: ignore[call-overload]
    assert collected(nf.Table.open(uri).to_spark(spark)) == [(number, "x") for number in range(1, 50, 2)]


@pytest.mark.parametrize("folders", [("a", "b"), ("odd name é", "with%20percent")])
def test_adopted_files_that_share_their_names(spark: SparkSession, uri: str, folders: tuple[str, str]) -> None:
    for number, folder in enumerate(folders):
        Path(uri, folder).mkdir(parents=True)
        for place, name in enumerate(("same.parquet", f"odd {number}.parquet", f"only-{number}.parquet")):
            first = 100 * number + 30 * place
            pq.write_table(pa.table({"id": list(range(first, first + 30)), "n": list(range(30))}), f"{uri}/{folder}/{name}")
    table = nf.Table.adopt(uri, key="id")
    store = open_store(StoreConfig(uri=uri))
    skip_rows(store, read_newest(store), lambda row: int(row["n"]) % 4 == 1)  # type: ignore[call-overload]
    table.refresh()
    assert collected(table.to_spark(spark)) == sorted(tuple(row.values()) for row in table.scan().to_pylist())
    assert table.to_spark(spark).count() == 6 * 22 == table.describe().rows


def test_adopted_files_with_columns_in_their_paths(spark: SparkSession, uri: str) -> None:
    spark.range(200).selectExpr("id", "id % 3 as shard").write.partitionBy("shard").parquet(uri)
    table = nf.Table.adopt(uri, key="id", partition_by="shard")
    store = open_store(StoreConfig(uri=uri))
    skip_rows(store, read_newest(store), lambda row: int(row["id"]) % 5 == 2)  # type: ignore[call-overload]
    table.refresh()
    assert sorted(row["id"] for row in table.to_spark(spark).collect()) == [number for number in range(200) if number % 5 != 2]


def test_a_table_on_s3(spark: SparkSession, s3: S3Server) -> None:
    config = s3.config("spark-skips")
    table = build(config.uri, dict(config.options))
    assert collected(table.to_spark(spark)) == sorted(tuple(row.values()) for row in table.scan().to_pylist())


def test_a_table_of_which_every_row_is_hidden(spark: SparkSession, uri: str) -> None:
    store = open_store(StoreConfig(uri=uri))
    skip_rows(store, build_table(store, SCHEMA, "id", rows_of(0, 100), properties=SMALL), lambda row: True)
    table = nf.Table.open(uri)
    df = table.to_spark(spark)
    assert (df.count(), df.columns, table.describe().rows) == (0, ["id", "host", "n"], 0)


def test_skips_cannot_be_rebuilt(uri: str) -> None:
    with pytest.raises(InvalidError, match=r"kind is 'skips'; no data file says .* restore the run that verify names"):
        build(uri).rebuild("skips")
