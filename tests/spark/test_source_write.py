"""`df.write.format("needlefish")`: every mode, what is refused, and that nothing half-written is ever seen."""

import pickle
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.datasource import CaseInsensitiveDict

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.errors import FencedError, NotFoundError
from needlefish.services.clean import CleanOptions, clean
from needlefish.spark.source.data_source import NeedlefishSource
from needlefish.spark.source.register import register_source
from needlefish.spark.source.write import TableWriter
from needlefish.store import RetriedStore, open_store
from needlefish.timeline import read_newest
from needlefish.timeline.replay import read_entries

SCHEMA = "id bigint, host string, n int, v string"
TABLE_SCHEMA = "id int64, host string, n int32, v string"
SMALL = {"chunkset_rows": 40, "granule_rows": 10}
Row = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _source(spark: SparkSession) -> None:
    register_source(spark)


def rows(numbers: Iterable[int], n: int = 0, v: str = "x") -> list[Row]:
    return [{"id": number, "host": "ab"[number % 2], "n": n, "v": v} for number in numbers]


def frame(spark: SparkSession, given: Iterable[Row], tasks: int = 3) -> DataFrame:
    """In tasks that all have keys of all ranges."""
    made = spark.createDataFrame([tuple(row.values()) for row in given], SCHEMA)
    return made.repartition(tasks) if tasks > 1 else made.coalesce(1)


def write(df: DataFrame, uri: str, mode: str = "append", **options: str) -> None:
    df.write.format("needlefish").mode(mode).options(**options).save(uri)


def stored(uri: str) -> dict[int, tuple[Any, ...]]:
    found = nf.Table.open(uri).scan().to_pylist()
    by_id = {int(str(row["id"])): (row["host"], row["n"], row["v"]) for row in found}
    assert len(by_id) == len(found)
    return by_id


def table(uri: str, **options: Any) -> nf.Table:
    return nf.Table.create(uri, TABLE_SCHEMA, key="id", properties=SMALL, **options)


def changed(uri: str) -> list[int]:
    """The versions that changed the table: work that came to nothing is not among them."""
    return [entry.version for entry in nf.Table.open(uri).history()]


def steps(uri: str) -> list[str]:
    """What the log says of instants, oldest first."""
    store = open_store(StoreConfig(uri=uri))
    entries = list(read_entries(store, 0, read_newest(store).version))[::-1]
    return [entry.instant.step for entry in entries if entry.instant is not None]


def test_append(spark: SparkSession, uri: str) -> None:
    created = table(uri, partition_by="host")
    write(frame(spark, rows(range(100))), uri)
    write(frame(spark, rows(range(100, 150))), uri)
    found = nf.Table.open(uri)
    assert sorted(stored(uri)) == list(range(150))
    assert found.find(id=[7, 120]).to_arrow().num_rows == 2
    assert found.verify().problems == ()
    assert [entry.action for entry in found.history() if entry.rows] == ["append", "append"]
    assert found.version > created.version
    assert steps(uri)[:4] == ["inflight", "completed"] * 2


def test_files_bear_the_name_of_the_write_that_is_in_the_log(spark: SparkSession, uri: str) -> None:
    table(uri, partition_by="host")
    write(frame(spark, rows(range(100)), 4), uri)
    store = open_store(StoreConfig(uri=uri))
    (begun,) = [entry.instant for entry in read_entries(store, 1, 1)]
    assert begun is not None
    names = [found.path.rsplit("/", 1)[-1] for found in store.list("data/")]
    assert len(names) >= 4
    assert all(name.startswith(begun.id) for name in names)


def test_rows_of_a_sorted_frame_make_few_files(spark: SparkSession, uri: str) -> None:
    table(uri)
    write(frame(spark, rows(range(80))).repartitionByRange(2, "id"), uri)
    assert nf.Table.open(uri).describe().files <= 4


def test_append_refuses_a_key_that_two_tasks_have(spark: SparkSession, uri: str) -> None:
    created = table(uri)
    twice = frame(spark, rows(range(50)), 1).unionAll(frame(spark, rows(range(49, 80)), 1))
    with pytest.raises(PySparkException, match=r"the key \{'id': 49\} more than once"):
        write(twice, uri)
    assert stored(uri) == {}
    assert changed(uri) == [created.version]
    assert steps(uri) == ["inflight", "rolled_back"]


def test_a_new_path_becomes_a_table(spark: SparkSession, uri: str) -> None:
    made = frame(spark, rows(range(20))).withColumn("ts", sf.lit(datetime(2026, 11, 1, tzinfo=UTC))).withColumn("d", sf.lit(Decimal("1.5")))
    write(made, uri, key="id", partitionBy="day(ts), bucket(id, 2)")
    found = nf.Table.open(uri)
    assert found.describe().key == ("id",)
    assert sorted(str(field.type) for field in found.schema) == sorted(
        ["int64", "string", "int32", "string", "timestamp[us, tz=UTC]", "decimal128(2, 1)"]
    )
    assert found.scan(partitions={"day": "2026-11-01"}).count() == 20
    assert found.find(id=3).to_arrow().num_rows == 1
    # The same options again mean the same table.
    write(made.withColumn("id", sf.col("id") + 100), uri, key="id", partitionBy="day(ts), bucket(id, 2)")
    assert found.refresh().scan().count() == 40


def test_a_new_path_without_a_key_says_so(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PySparkException, match=r"no table, and key is not given.*option\('key', 'id'\)"):
        write(frame(spark, rows(range(3))), uri)
    with pytest.raises(NotFoundError):
        nf.Table.open(uri)


def test_overwrite_is_a_new_version(spark: SparkSession, uri: str) -> None:
    made = table(uri)
    made.append(frame(spark, rows(range(100))))
    made.delete(where="id = 3")
    before = made.version
    write(frame(spark, rows(range(90, 120), n=1)), uri, "overwrite")
    assert stored(uri) == {row["id"]: (row["host"], 1, "x") for row in rows(range(90, 120))}
    found = nf.Table.open(uri)
    assert found.verify().problems == ()
    assert nf.Table.open(uri, version=before).scan().count() == 99
    changes = found.changes(before).to_arrow()["_change"].to_pylist()
    assert {what: changes.count(what) for what in set(changes)} == {"update": 10, "insert": 20, "delete": 89}


def test_overwrite_of_a_new_path(spark: SparkSession, uri: str) -> None:
    write(frame(spark, rows(range(5))), uri, "overwrite", key="id")
    assert sorted(stored(uri)) == list(range(5))


def test_upsert_by_order(spark: SparkSession, uri: str) -> None:
    table(uri).append(frame(spark, rows(range(60), n=5)))
    # Key 10 comes late, key 11 comes three times and in several tasks, key 70 is new and comes twice.
    given = [
        *rows([10], 4, "late"),
        *rows([11], 6, "six"),
        *rows([11], 8, "eight"),
        *rows([11], 7, "seven"),
        *rows(range(20, 40), 6, "new"),
    ]
    given += [*rows([70], 1, "one"), *rows([70], 2, "two")]
    write(frame(spark, given, 4), uri, operation="upsert", orderBy="n")
    expected = {row["id"]: (row["host"], 5, "x") for row in rows(range(60))}
    expected |= {row["id"]: (row["host"], 6, "new") for row in rows(range(20, 40))}
    expected |= {11: ("b", 8, "eight"), 70: ("a", 2, "two")}
    assert stored(uri) == expected
    assert nf.Table.open(uri).verify().problems == ()


def test_upsert_without_an_order_takes_the_last_row_of_a_task(spark: SparkSession, uri: str) -> None:
    table(uri, partition_by="host")
    write(frame(spark, [*rows(range(30), v="first"), *rows(range(30), v="last")], 1), uri, operation="upsert")
    assert {v for _, _, v in stored(uri).values()} == {"last"}


def test_upsert_moves_global_keys(spark: SparkSession, uri: str) -> None:
    nf.Table.create(uri, TABLE_SCHEMA, key="id", partition_by="host", properties=SMALL | {"global_keys": True})
    write(frame(spark, rows(range(30))), uri)
    moved = [row | {"host": "c"} for row in rows(range(10, 20), n=1)]
    write(frame(spark, moved), uri, operation="upsert", orderBy="n")
    assert stored(uri) == {row["id"]: (row["host"], 0, "x") for row in rows(range(30))} | dict.fromkeys(range(10, 20), ("c", 1, "x"))


@pytest.mark.parametrize("operation", ["append", "upsert"])
def test_a_batch_comes_once(spark: SparkSession, uri: str, operation: str) -> None:
    table(uri)
    write(frame(spark, rows(range(10))), uri, operation=operation, batch="etl:17")
    once = changed(uri)
    for batch in ("etl:17", "etl:16"):
        write(frame(spark, rows(range(10, 20))), uri, operation=operation, batch=batch)
    assert changed(uri) == once
    assert steps(uri) == ["inflight", "completed", *(["inflight", "rolled_back"] * 2)]
    write(frame(spark, rows(range(10, 20))), uri, operation=operation, batch="etl:18")
    assert sorted(stored(uri)) == list(range(20))
    assert nf.Table.open(uri).describe().batches == {"etl": 18}


def test_a_table_that_exists(spark: SparkSession, uri: str) -> None:
    """Spark itself lets no other mode than these two through to a Python source; the option says the same."""
    df = frame(spark, rows(range(5)))
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            write(df, uri, mode, key="id")
    write(df, uri, key="id", ifExists="error")
    assert sorted(stored(uri)) == list(range(5))
    write(frame(spark, rows(range(5, 9))), uri, key="id", ifExists="ignore")
    with pytest.raises(PySparkException, match="holds a table already"):
        write(frame(spark, rows(range(5, 9))), uri, key="id", ifExists="error")
    assert sorted(stored(uri)) == list(range(5))


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_a_task_that_fails_leaves_nothing_visible(spark: SparkSession, uri: str, mode: str) -> None:
    made = table(uri)
    made.append(frame(spark, rows(range(10))))

    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if 150 in batch["id"].to_pylist():
                raise RuntimeError("broken on purpose")
            yield batch

    df = frame(spark, rows(range(100, 200)), 4).mapInArrow(broken, SCHEMA)
    options = {"operation": "upsert"} if mode == "upsert" else {}
    with pytest.raises(PySparkException, match="broken on purpose"):
        write(df, uri, "append" if mode == "upsert" else mode, **options)
    assert (changed(uri)[0], sorted(stored(uri))) == (made.version, list(range(10)))
    # Others go on.
    write(frame(spark, rows(range(10, 20))), uri)
    assert sorted(stored(uri)) == list(range(20))


def test_a_task_that_fails_makes_no_table(spark: SparkSession, uri: str) -> None:
    df = frame(spark, rows(range(10))).withColumn("n", sf.raise_error(sf.lit("broken on purpose")).cast("int"))
    with pytest.raises(PySparkException, match="broken on purpose"):
        write(df, uri, key="id")
    with pytest.raises(NotFoundError):
        nf.Table.open(uri)


def test_rows_that_are_refused(spark: SparkSession, uri: str) -> None:
    created = table(uri)
    with pytest.raises(PySparkException, match="null in key column 'id'"):
        write(frame(spark, [*rows(range(5)), {"id": None, "host": "a", "n": 1, "v": "x"}]), uri)
    with pytest.raises(PySparkException, match="lacks column 'id'"):
        write(frame(spark, rows(range(5))).drop("id"), uri)
    with pytest.raises(PySparkException, match="'extra', which the table does not have"):
        write(frame(spark, rows(range(5))).withColumn("extra", sf.lit(1)), uri)
    with pytest.raises(PySparkException, match="cast it first"):
        write(frame(spark, rows(range(5))).withColumn("n", sf.lit("text")), uri)
    assert changed(uri) == [created.version]
    # Of the others no row was ever touched.
    assert steps(uri) == ["inflight", "rolled_back"]


@pytest.mark.parametrize(
    ("options", "mode", "message"),
    [
        ({"operation": "merge"}, "append", "operation is 'merge'; give append or upsert"),
        ({"operation": "upsert"}, "overwrite", "operation is 'upsert', but mode is overwrite"),
        ({"orderBy": "n"}, "append", "orderBy is 'n', but the operation is append"),
        ({"operation": "upsert", "orderBy": "m"}, "append", "orderBy names column 'm'"),
        ({"batch": "17"}, "append", "batch is '17'"),
        ({"ifExists": "maybe"}, "append", "ifExists is 'maybe'"),
        ({"ifExists": "ignore"}, "overwrite", "use mode append with it"),
        ({"key": "host"}, "append", "key is 'host', but the table's is 'id'"),
        ({"partitionBy": "host"}, "append", "partitioned otherwise"),
        ({"key": "["}, "append", "which is no JSON"),
        ({"order_by": "n"}, "append", "option 'order_by' is 'n', which nobody reads"),
    ],
)
def test_options_that_are_wrong(spark: SparkSession, uri: str, options: dict[str, str], mode: str, message: str) -> None:
    """Asked as Spark asks, in this process: the words are what matters."""
    table(uri)
    source = NeedlefishSource(CaseInsensitiveDict({"path": uri} | options))
    with pytest.raises(nf.errors.InvalidError, match=message.replace("(", r"\(")):
        source.writer(frame(spark, []).schema, mode == "overwrite")


def test_columns_that_are_missing_are_nulls(spark: SparkSession, uri: str) -> None:
    table(uri)
    write(frame(spark, rows(range(3))).drop("v"), uri)
    assert {v for _, _, v in stored(uri).values()} == {None}


def test_an_empty_frame(spark: SparkSession, uri: str) -> None:
    created = table(uri)
    write(frame(spark, []), uri)
    assert nf.Table.open(uri).version == created.version
    created.append(frame(spark, rows(range(3))))
    write(frame(spark, []), uri, "overwrite")
    assert stored(uri) == {}


def test_a_path_with_signs(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "a b=c [1]")
    write(frame(spark, rows(range(5))), uri, key="id")
    assert sorted(stored(uri)) == list(range(5))


def test_sql(spark: SparkSession, uri: str) -> None:
    table(uri)
    spark.sql(f"CREATE TABLE written USING needlefish OPTIONS (path '{uri}')")
    try:
        spark.sql("INSERT INTO written VALUES (1, 'a', 0, 'x'), (2, 'b', 0, 'y')")
        assert stored(uri) == {1: ("a", 0, "x"), 2: ("b", 0, "y")}
        spark.sql("INSERT OVERWRITE written SELECT id, 'c', 1, 'z' FROM range(5, 8)")
        assert stored(uri) == dict.fromkeys(range(5, 8), ("c", 1, "z"))
    finally:
        spark.sql("DROP TABLE written")


# All that may go goes, however young it is.
AT_ONCE = CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=0)


def asked(spark: SparkSession, uri: str, **options: str) -> TableWriter:
    """The writer as Spark asks for it, in this process."""
    found = NeedlefishSource(CaseInsensitiveDict({"path": uri} | options)).writer(frame(spark, []).schema, False)
    assert isinstance(found, TableWriter)
    return pickle.loads(pickle.dumps(found))


def batches(numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([("id", pa.int64()), ("host", pa.string()), ("n", pa.int32()), ("v", pa.string())])
    return iter(pa.Table.from_pylist(rows(numbers), schema=schema).to_batches())


def files(store: RetriedStore) -> list[str]:
    return [found.path for found in store.list("data/")]


def test_a_clean_beside_a_write(spark: SparkSession, uri: str) -> None:
    table(uri)
    store = open_store(StoreConfig(uri=uri))
    writer = asked(spark, uri)
    messages = [writer.write(batches(range(50))), writer.write(batches(range(50, 90))), None]
    there = files(store)
    clean(store, read_newest(store), AT_ONCE)
    assert files(store) == there != []
    writer.commit(messages)
    assert sorted(stored(uri)) == list(range(90))
    # What Spark might do after an error that came later: the commit stands, and is never begun again.
    writer.abort(messages)
    with pytest.raises(FencedError):
        writer.write(batches(range(90, 95)))
    assert sorted(stored(uri)) == list(range(90))
    assert nf.Table.open(uri).verify().problems == ()


def test_a_write_that_is_aborted(spark: SparkSession, uri: str) -> None:
    created = table(uri)
    store = open_store(StoreConfig(uri=uri))
    writer = asked(spark, uri)
    messages = [writer.write(batches(range(50))), None]
    writer.abort(messages)
    assert (read_newest(store).instants, changed(uri)) == ((), [created.version])
    assert files(store)
    clean(store, read_newest(store), AT_ONCE)
    assert files(store) == []
    with pytest.raises(FencedError):
        writer.commit(messages)
    assert stored(uri) == {}


def test_a_new_path_is_written_in_one_attempt(spark: SparkSession, uri: str) -> None:
    writer = asked(spark, uri, key="id")
    messages = [writer.write(batches(range(50))), writer.write(batches(range(50, 90)))]
    with pytest.raises(NotFoundError):
        nf.Table.open(uri)
    writer.commit(messages)
    assert sorted(stored(uri)) == list(range(90))
    assert steps(uri)[:2] == ["inflight", "completed"]
    (begun,) = [entry.instant for entry in read_entries(open_store(StoreConfig(uri=uri)), 1, 1)]
    assert begun is not None
    assert all(found.rsplit("/", 1)[-1].startswith(begun.id) for found in files(open_store(StoreConfig(uri=uri))))
    other = asked(spark, f"{uri}-other", key="id")
    other.abort([other.write(batches(range(50)))])
    with pytest.raises(NotFoundError):
        nf.Table.open(f"{uri}-other")
