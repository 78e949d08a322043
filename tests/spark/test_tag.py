"""Tagging a Spark frame, against a plain join with the table's files computed by Spark."""

import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.store import open_store
from needlefish.testing.s3 import S3Server
from needlefish.testing.tables import append_rows, build_table

START = datetime(2026, 11, 1, tzinfo=UTC)
SMALL = {"chunkset_rows": 300, "granule_rows": 50}
SCHEMA = "id string, host string, n bigint"


def rows_of(first: int, end: int) -> list[dict[str, object]]:
    """Ids in no order of their numbers, three hosts."""
    return [{"id": f"{number * 7919 % 100_003:06}", "host": f"h{number % 3}", "n": number} for number in range(first, end)]


def build(uri: str, *, partition_by: str | tuple[str, ...] = (), **properties: object) -> nf.Table:
    """2,000 rows in two versions and many small files, without Spark."""
    store = open_store(StoreConfig(uri=uri))
    state = build_table(store, SCHEMA, "id", rows_of(0, 1_000), partition_by=partition_by, properties={**SMALL, **properties})
    append_rows(store, state, rows_of(1_000, 2_000))
    return nf.Table.open(uri)


def frame(spark: SparkSession, first: int, end: int) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in rows_of(first, end)], SCHEMA)


def plain(spark: SparkSession, uri: str, df: DataFrame, on: list[str]) -> DataFrame:
    """The same by Spark's own reader: file and row index of every row, joined with the frame."""
    file = "_metadata.file_path"
    stored = spark.read.option("recursiveFileLookup", True).parquet(f"{uri}/data")
    inside = sf.regexp_extract(file, r"/data/(?:(.*)/)?[^/]*$", 1)
    placed = stored.select(
        *on,
        sf.regexp_extract(file, r"([^/]*)\.parquet$", 1).alias("chunkset"),
        sf.col("_metadata.row_index").alias("row"),
        sf.when(inside == "", sf.lit(".")).otherwise(inside).alias("partition"),
    )
    return df.join(placed, on, "left").select(*df.columns, "chunkset", "row", "partition")


def check(spark: SparkSession, table: nf.Table, df: DataFrame, on: list[str]) -> list[Row]:
    tagged = table.tag(df)
    assert tagged.columns == [*df.columns, "chunkset", "row", "partition"]
    rows = tagged.collect()
    assert sorted(map(str, rows)) == sorted(map(str, plain(spark, table.uri, df, on).collect()))
    return rows


def found(rows: list[Row]) -> int:
    return sum(row.chunkset is not None for row in rows)


@pytest.mark.parametrize(
    ("first", "end", "present"), [(0, 2_000, 2_000), (2_000, 2_500, 0), (1_900, 2_100, 100), (0, 0, 0)], ids=["all", "none", "mix", "empty"]
)
def test_tags_equal_a_plain_join(spark: SparkSession, uri: str, first: int, end: int, present: int) -> None:
    tagged = check(spark, build(uri), frame(spark, first, end), ["id"])
    assert found(tagged) == present
    assert {row.partition for row in tagged} <= {".", None}


def test_a_row_of_another_partition_is_not_the_key_s(spark: SparkSession, uri: str) -> None:
    table = build(uri, partition_by="host")
    mixed = frame(spark, 1_800, 2_200).withColumn("host", sf.when(sf.col("n") % 4 == 0, sf.lit("h1")).otherwise(sf.col("host")))
    tagged = check(spark, table, mixed, ["id", "host"])
    assert 0 < found(tagged) < 200
    assert {row.partition for row in tagged if row.partition != f"host={row.host}"} == {None}


def test_global_keys_are_found_in_any_partition_and_need_no_partition_columns(spark: SparkSession, uri: str) -> None:
    table = build(uri, partition_by="host", global_keys=True)
    tagged = check(spark, table, frame(spark, 1_800, 2_200).select("id"), ["id"])
    assert found(tagged) == 200
    assert {row.partition for row in tagged} == {None, "host=h0", "host=h1", "host=h2"}


def test_computed_and_null_partitions(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, "id bigint, ts timestamp", key="id", partition_by=["day(ts)"])
    stored = [(number, None if number % 5 == 0 else START.replace(day=1 + number % 4)) for number in range(40)]
    table.append(spark.createDataFrame(stored, "id bigint, ts timestamp"))
    later = [(number, ts and ts.replace(hour=9)) for number, ts in stored] + [(0, START), (1, None)]
    tagged = table.tag(spark.createDataFrame(later, "id bigint, ts timestamp"))
    rows = {(row.id, row.ts): row for row in tagged.collect()}
    assert len(rows) == 42
    for (number, ts), row in rows.items():
        wrong = (number, ts) in ((0, START.replace(tzinfo=None)), (1, None))
        expected = None if wrong else "day=__HIVE_DEFAULT_PARTITION__" if ts is None else f"day={ts:%Y-%m-%d}"
        assert row.partition == expected


def test_composite_keys(spark: SparkSession, uri: str) -> None:
    rows = [{"a": f"k{number % 20:02}", "b": number // 20} for number in range(1_000)]
    build_table(open_store(StoreConfig(uri=uri)), "a string, b int32, c string", ["b", "a"], rows[::2], properties=SMALL)
    df = spark.createDataFrame([(row["b"], row["a"]) for row in rows], "b int, a string")
    assert found(check(spark, nf.Table.open(uri), df, ["a", "b"])) == 500


KINDS: dict[str, tuple[str, list[object]]] = {
    "int8": ("tinyint", [-128, 0, 127]),
    "int16": ("smallint", [-(2**15), 7, 2**15 - 1]),
    "int32": ("int", [-(2**31), 7, 2**31 - 1]),
    "int64": ("bigint", [-(2**63), -1, 2**63 - 1]),
    "uint8": ("smallint", [0, 255]),
    "uint16": ("int", [0, 2**16 - 1]),
    "uint32": ("bigint", [0, 2**32 - 1]),
    "uint64": ("decimal(20,0)", [Decimal(0), Decimal(5), Decimal(2**64 - 1)]),
    "float": ("float", [-1.5, 0.25, float("inf"), 3.5]),
    "double": ("double", [-1.5, 0.1, 1e300]),
    "decimal(38,10)": ("decimal(38,10)", [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10"), Decimal("0.1")]),
    "boolean": ("boolean", [True, False]),
    "string": ("string", ["", "é𝄞", "z"]),
    "binary": ("binary", [b"", b"\x00\xff", b"a"]),
    "date": ("date", [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "timestamp": ("timestamp", [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), START]),
    "timestamp_ntz": ("timestamp_ntz", [datetime(1969, 1, 1), datetime(2026, 1, 1)]),  # noqa: DTZ001
}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_keys_of_each_type(spark: SparkSession, uri: str, kind: str) -> None:
    spark_type, values = KINDS[kind]
    stored = [{"k": int(value) if isinstance(value, Decimal) and kind == "uint64" else value} for value in values[::2]]
    build_table(open_store(StoreConfig(uri=uri)), f"k {kind}", "k", stored, properties={"chunkset_rows": 1})
    tagged = check(spark, nf.Table.open(uri), spark.createDataFrame([(value,) for value in values], f"k {spark_type}"), ["k"])
    assert found(tagged) == len(stored)


def test_narrower_columns_are_widened_and_keep_their_type(spark: SparkSession, uri: str) -> None:
    rows = [{"a": number, "b": float(number), "c": number} for number in range(5)]
    build_table(
        open_store(StoreConfig(uri=uri)), pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.uint64())]), ["a", "b", "c"], rows
    )
    df = spark.createDataFrame([(1, 1.0, 1), (9, 9.0, 9)], "a tinyint, b float, c int")
    tagged = nf.Table.open(uri).tag(df)
    assert tagged.schema.simpleString() == "struct<a:tinyint,b:float,c:int,chunkset:string,row:bigint,partition:string>"
    assert [(row.a, row.row) for row in tagged.orderBy("a").collect()] == [(1, 1), (9, None)]


def test_nan_and_both_zeros_are_keys(spark: SparkSession, uri: str) -> None:
    nan = float("nan")
    build_table(open_store(StoreConfig(uri=uri)), "k double", "k", [{"k": value} for value in (-0.0, 1.0, nan)])
    table = nf.Table.open(uri)
    tagged = table.tag(spark.createDataFrame([("zero", 0.0), ("minus", -0.0), ("nan", nan), ("two", 2.0)], "name string, k double"))
    assert {row.name: row.row for row in tagged.select("name", "row").collect()} == {"zero": 0, "minus": 0, "nan": 2, "two": None}


def test_texts_are_compared_as_the_table_compares_them(spark: SparkSession, uri: str) -> None:
    build_table(open_store(StoreConfig(uri=uri)), "k string", "k", [{"k": "a"}, {"k": "B"}])
    df = spark.createDataFrame([("a",), ("A",), ("b",), ("B",)], "k string").selectExpr("k as name", "k collate UTF8_LCASE as k")
    assert {row.name: row.row for row in nf.Table.open(uri).tag(df).collect()} == {"a": 1, "A": None, "b": None, "B": 0}


def test_other_columns_and_repeated_rows_pass_through(spark: SparkSession, uri: str) -> None:
    df = frame(spark, 0, 3).selectExpr("id", "interval 1 day as `odd.name`", "array(n) as n").crossJoin(spark.range(2).toDF("copy"))
    tagged = build(uri).tag(df)
    assert tagged.schema.simpleString().startswith("struct<id:string,odd.name:interval day,n:array<bigint>,copy:bigint,")
    rows = tagged.drop("odd.name").collect()
    assert (len(rows), found(rows)) == (6, 6)
    assert len({(row.id, row.chunkset, row.row) for row in rows}) == 3


def test_a_key_that_is_there_twice_comes_twice_as_in_a_join(spark: SparkSession, uri: str) -> None:
    table = build(uri)
    append_rows(open_store(StoreConfig(uri=uri)), table._state, rows_of(5, 6))
    assert found(check(spark, table.refresh(), frame(spark, 4, 7), ["id"])) == 4


def test_the_version_of_the_handle_decides(spark: SparkSession, uri: str) -> None:
    build(uri)
    df = frame(spark, 900, 1_100)
    assert found(nf.Table.open(uri, version=1).tag(df).collect()) == 100
    assert found(nf.Table.open(uri).tag(df).collect()) == 200


def test_without_readable_filters_tags_stay_right(spark: SparkSession, uri: str) -> None:
    table = build(uri, partition_by="host")
    runs = sorted(Path(uri, "_needlefish/metadata/bloom_filters").iterdir())
    runs[0].write_bytes(b"")
    runs[1].write_bytes(bytes(runs[1].stat().st_size))
    shutil.rmtree(Path(uri, "_needlefish/metadata/column_stats"))
    assert found(check(spark, table, frame(spark, 1_500, 2_500), ["id", "host"])) == 500


def test_keys_do_not_pass_through_the_driver(spark: SparkSession, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    build(uri).tag(frame(spark, 0, 5)).explain()
    plan = capsys.readouterr().out
    assert "SortMergeJoin" in plan
    assert "Broadcast" not in plan


def test_tags_on_s3(spark: SparkSession, s3: S3Server) -> None:
    config = s3.config("spark-tag")
    build_table(open_store(config), SCHEMA, "id", rows_of(0, 500), properties=SMALL)
    table = nf.Table.open(config.uri, storage_options=dict(config.options))
    assert found(table.tag(frame(spark, 400, 600)).collect()) == 100


@pytest.mark.parametrize(
    ("expressions", "words"),
    [
        (["host", "n"], "lacks column 'id'"),
        (["id", "n"], "lacks column 'host'"),
        (["n as id", "host"], "'id' is int64, but the table has string"),
        (["id", "host", "n as Row"], "column 'Row', which tag would add"),
        (["id", "host", "n as ID"], "more than one column named 'id'"),
    ],
)
def test_what_does_not_belong_is_refused_at_once(spark: SparkSession, uri: str, expressions: list[str], words: str) -> None:
    table = build(uri, partition_by="host")
    with pytest.raises(nf.InvalidError, match=words):
        table.tag(frame(spark, 0, 5).selectExpr(*expressions))


def test_a_null_key_is_refused_when_spark_meets_it(spark: SparkSession, uri: str) -> None:
    tagged = build(uri).tag(frame(spark, 0, 5).selectExpr("if(n = 3, null, id) as id"))
    with pytest.raises(PythonException, match=r"needlefish.errors.InvalidError: df has a null in key column 'id'"):
        tagged.collect()


def test_a_table_in_memory_cannot_be_reached_by_tasks(spark: SparkSession) -> None:
    table = nf.Table.create("memory://tag", SCHEMA, key="id")
    with pytest.raises(nf.InvalidError, match="memory://"):
        table.tag(frame(spark, 0, 5))


def test_only_a_spark_frame_can_be_tagged(uri: str) -> None:
    with pytest.raises(nf.InvalidError, match="give a Spark DataFrame"):
        build(uri).tag(pa.table({"id": ["a"]}))  # type: ignore[arg-type]
