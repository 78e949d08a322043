"""Appending a Spark frame: what ends up in the table, and what is refused before anything shows."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import needlefish as nf
from needlefish.testing.s3 import S3Server

SCHEMA = "id string, ts timestamp, n bigint, note string"
START = datetime(2026, 11, 1, tzinfo=UTC)


def frame(spark: SparkSession, rows: int, first: int = 0) -> DataFrame:
    """Three days of rows in a scrambled order."""
    return spark.range(first, first + rows).selectExpr(
        "md5(cast(id as string)) as id",
        "timestamp_seconds(unix_timestamp(timestamp'2026-11-01 00:00:00') + id % 3 * 86400) as ts",
        "id as n",
        "cast(null as string) as note",
    )


def rows_of(table: nf.Table, **arguments: Any) -> list[dict[str, object]]:
    return sorted(table.scan(**arguments).to_pylist(), key=str)


def test_rows_come_back_as_they_went_in(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id", partition_by=["day(ts)"])
    df = frame(spark, 1_000)
    result = table.append(df)
    assert (result.version, result.rows, result.files) == (table.version, 1_000, 3)
    assert [entry.action for entry in table.history(steps=True)] == ["append", "claim", "create"]
    expected = sorted((row.asDict() for row in df.toLocalIterator()), key=str)
    found = [row | {"ts": row["ts"].replace(tzinfo=None)} for row in rows_of(table)]
    assert sorted(found, key=str) == [row | {"ts": row["ts"].replace(tzinfo=None)} for row in expected]
    assert sorted(map(tuple, table.to_spark(spark).collect()), key=str) == sorted(map(tuple, df.collect()), key=str)


def test_chunksets_are_sorted_disjoint_and_cut_to_size(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id", properties={"chunkset_rows": 700, "granule_rows": 100})
    result = table.append(frame(spark, 5_000))
    files = sorted((pq.ParquetFile(path) for path in _paths(uri)), key=_first)
    assert result.files == len(files)
    keys = [file.read(columns=["id"])["id"].to_pylist() for file in files]
    assert all(len(part) <= 700 and part == sorted(part) for part in keys)
    assert [key for part in keys for key in part] == sorted(key for part in keys for key in part)
    assert {file.metadata.row_group(0).num_rows for file in files if file.metadata.num_rows >= 100} == {100}


def _paths(uri: str) -> list[str]:
    return [str(path) for path in Path(uri, "data").rglob("*.parquet")]


def _first(file: pq.ParquetFile) -> str:
    return str(file.read_row_group(0, columns=["id"])["id"][0].as_py())


def test_a_large_chunkset_is_cut_by_bytes(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id", properties={"chunkset_bytes": 20_000, "granule_rows": 100})
    result = table.append(frame(spark, 4_000).coalesce(1))
    assert result.files >= result.bytes // 40_000
    assert all(pq.ParquetFile(path).metadata.num_rows < 4_000 for path in _paths(uri))


def test_odd_signs_in_paths_are_only_signs(spark: SparkSession, tmp_path: Path) -> None:
    table = nf.Table.create(str(tmp_path / "a b{c}[d]*%20é"), "id string, host string", key="id", partition_by=["host"])
    df = spark.createDataFrame([("a", "x/y"), ("b", "{*}"), ("c", ""), ("d", "é %"), ("e", None)], "id string, host string")
    table.append(df)
    assert sorted(map(tuple, table.to_spark(spark).collect()), key=str) == sorted(map(tuple, df.collect()), key=str)
    for host in ("x/y", "{*}", "", "é %"):
        scan = table.scan(where=f"host = '{host}'")
        assert [row["host"] for row in scan.to_pylist()] == [host]
        assert scan.receipt.files_read == 1


def test_an_empty_frame_changes_nothing(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id")
    result = table.append(frame(spark, 0))
    assert (result.version, result.rows, result.files) == (table.version, 0, 0)
    assert [entry.action for entry in table.refresh().history()] == ["create"]
    assert table.to_spark(spark).collect() == []


def test_columns_that_may_be_null_can_be_left_out_and_order_is_free(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id")
    table.append(frame(spark, 10).select("n", "id"))
    assert {(row["note"], row["ts"]) for row in rows_of(table)} == {(None, None)}


@pytest.mark.parametrize(
    ("expressions", "words"),
    [
        (["if(n = 5, null, id) as id", "ts", "n"], "null in key column 'id'.*'n': 5"),
        (["id", "ts", "n", "n as extra"], "column 'extra', which the table does not have"),
        (["ts", "n"], "lacks column 'id'"),
        (["id", "ts", "cast(n as string) as n"], "'n' is string, but the table has int64"),
        (["id", "cast(ts as timestamp_ntz) as ts", "n"], "'ts' is timestamp_ntz, but the table has timestamp"),
        (["if(n = 7, md5('3'), id) as id", "ts", "n"], f"key {{'id': '{'eccbc87e4b5ce2fe28308fd9f2a7baf3'}'}} more than once"),
        (["id", "ts", "interval 1 day as n"], "Spark type interval"),
    ],
)
def test_what_does_not_belong_is_refused_and_nothing_shows(spark: SparkSession, uri: str, expressions: list[str], words: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id")
    with pytest.raises(nf.InvalidError, match=words):
        table.append(frame(spark, 100).selectExpr(*expressions))
    assert [entry.action for entry in nf.Table.open(uri).history()] == ["create"]
    assert rows_of(nf.Table.open(uri)) == []


def test_the_same_key_in_two_partitions_is_two_rows(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, "id string, host string", key="id", partition_by=["host"])
    table.append(spark.createDataFrame([("a", "x"), ("a", "y"), ("b", None)], "id string, host string"))
    assert table.describe().files == 3
    assert rows_of(table) == [{"id": "a", "host": "x"}, {"id": "a", "host": "y"}, {"id": "b", "host": None}]


def test_duplicates_in_one_partition_are_named_with_it(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, "id int, part int, v string", key=["id", "part"], partition_by=["round(part, 10) as tens"])
    bad = spark.createDataFrame([(1, 11, "a"), (2, 12, "b"), (1, 11, "c")], "id int, part int, v string")
    with pytest.raises(nf.InvalidError, match=r"\{'id': 1, 'part': 11\} more than once in partition tens=10"):
        table.append(bad)


def test_a_value_out_of_range_is_named(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, pa.schema([("id", pa.int64()), ("small", pa.uint8())]), key="id")
    with pytest.raises(nf.InvalidError, match=r"'small' does not fit uint8.*300"):
        table.append(spark.createDataFrame([(1, 300)], "id bigint, small int"))
    table.append(spark.createDataFrame([(1, 200)], "id bigint, small int"))
    assert rows_of(table) == [{"id": 1, "small": 200}]
    assert table.to_spark(spark).collect() == [Row(id=1, small=200)]


ALL_TYPES: dict[str, tuple[str, list[object]]] = {
    "int8": ("tinyint", [-128, 0, 127]),
    "int16": ("smallint", [-(2**15), 2**15 - 1]),
    "int32": ("int", [-(2**31), 2**31 - 1]),
    "int64": ("bigint", [-(2**63), -1, 2**63 - 1]),
    "uint8": ("smallint", [0, 255]),
    "uint16": ("int", [0, 2**16 - 1]),
    "uint32": ("bigint", [0, 2**32 - 1]),
    "uint64": ("decimal(20,0)", [Decimal(0), Decimal(2**64 - 1)]),
    "float": ("float", [-1.5, float("inf"), 0.25]),
    "double": ("double", [-1.5, 0.1, 1e300]),
    "decimal(38,10)": ("decimal(38,10)", [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10")]),
    "boolean": ("boolean", [True, False]),
    "string": ("string", ["", "é𝄞", "z"]),
    "binary": ("binary", [b"", b"\x00\xff", b"a"]),
    "date": ("date", [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "timestamp": ("timestamp", [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), START]),
    "timestamp_ntz": ("timestamp_ntz", [datetime(1969, 1, 1), START.replace(tzinfo=None)]),  # noqa: DTZ001
}


@pytest.mark.parametrize("kind", sorted(ALL_TYPES))
def test_every_type_as_key(spark: SparkSession, uri: str, kind: str) -> None:
    spark_type, values = ALL_TYPES[kind]
    table = nf.Table.create(uri, f"k {kind}", key="k")
    table.append(spark.createDataFrame([(value,) for value in values], f"k {spark_type}").repartition(2))
    plain = [int(value) if isinstance(value, Decimal) and kind.startswith("uint") else value for value in values]
    assert sorted(row["k"] for row in table.scan().to_pylist()) == sorted(plain)  # type: ignore[type-var]
    for value in plain:
        assert [row["k"] for row in table.scan(key_range=(value, value)).to_pylist()] == [value]


def test_every_type_as_value(spark: SparkSession, uri: str) -> None:
    kinds = sorted(ALL_TYPES)
    rows = [(n, *(ALL_TYPES[kind][1][n % len(ALL_TYPES[kind][1])] for kind in kinds)) for n in range(6)] + [(6, *(None for _ in kinds))]
    df = spark.createDataFrame(rows, "k int, " + ", ".join(f"c{n} {ALL_TYPES[kind][0]}" for n, kind in enumerate(kinds)))
    table = nf.Table.create(uri, "k int, " + ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds)), key="k")
    table.append(df)
    assert table.to_spark(spark).orderBy("k").collect() == df.orderBy("k").collect()
    assert table.to_spark(spark).schema.simpleString() == df.schema.simpleString()


def test_nested_columns_are_carried(spark: SparkSession, uri: str) -> None:
    nested = "id int, tags array<string>, place struct<lat:double,`odd name`:string>, counts map<string,bigint>"
    df = spark.createDataFrame([(1, ["a", None], Row(lat=1.5, odd="x"), {"n": 1}), (2, None, None, None)], nested)
    table = nf.Table.create(uri, df.schema, key="id")
    table.append(df)
    assert table.to_spark(spark).orderBy("id").collect() == df.orderBy("id").collect()
    assert table.scan(where="tags is null", columns=["id"]).to_pylist() == [{"id": 2}]
    with pytest.raises(nf.InvalidError, match="nested columns"):
        table.scan(where="tags = 'a'")


def test_appends_on_s3_and_read_back_through_spark(spark: SparkSession, s3: S3Server) -> None:
    config = s3.config("spark-append")
    options = dict(config.options)
    table = nf.Table.create(config.uri, SCHEMA, key="id", partition_by=["day(ts)"], storage_options=options)
    df = frame(spark, 500)
    assert table.append(df).rows == 500
    opened = nf.Table.open(config.uri, storage_options=options)
    assert opened.scan(where="n = 17").to_pylist()[0]["n"] == 17
    assert sorted(map(tuple, opened.to_spark(spark).collect()), key=str) == sorted(map(tuple, df.collect()), key=str)


def test_a_table_in_memory_cannot_be_reached_by_tasks(spark: SparkSession) -> None:
    table = nf.Table.create("memory://append", SCHEMA, key="id")
    with pytest.raises(nf.InvalidError, match=r"memory://.*other processes"):
        table.append(frame(spark, 5))


def test_two_handles_append_one_after_the_other(spark: SparkSession, uri: str) -> None:
    first = nf.Table.create(uri, SCHEMA, key="id")
    second = nf.Table.open(uri)
    first.append(frame(spark, 10))
    assert second.append(frame(spark, 10, first=10)).version == second.version > first.version
    assert len(rows_of(second)) == 20
    assert len(rows_of(first)) == 10, "a handle stays on its version"
    assert len(rows_of(first.refresh())) == 20
    assert [entry.rows for entry in first.history()] == [10, 10, 0]


def test_other_things_than_frames_are_refused(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id")
    with pytest.raises(nf.InvalidError, match=r"df is a pyarrow.*give a Spark DataFrame"):
        table.append(pa.table({"id": ["a"]}))  # type: ignore[arg-type]
