"""Adopting directories that others wrote: Spark, pyarrow and DuckDB, sorted or not, and all that is refused."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import needlefish as nf
from needlefish.store import open_store
from needlefish.testing.s3 import S3Server

pytestmark = pytest.mark.usefixtures("spark")


def files_of(uri: str) -> dict[str, bytes]:
    """Every file that is not ours, with its bytes."""
    paths = (path for path in Path(uri).rglob("*") if path.is_file() and "_needlefish" not in path.parts)
    return {str(path.relative_to(uri)): path.read_bytes() for path in paths}


def check_table(table: nf.Table, rows: list[dict[str, Any]], key: str, spark: SparkSession) -> None:
    """The same rows by scan, by find and by Spark; statistics and filters that hold; files untouched."""
    by_key = {row[key]: row for row in rows}
    assert {row[key]: row for row in table.scan().to_pylist()} == by_key
    for value in list(by_key)[:: max(1, len(by_key) // 7)]:
        assert table.find({key: value}).to_pylist() == [by_key[value]]
    assert sorted(row[key] for row in table.to_spark(spark).collect()) == sorted(by_key)
    found = table.verify()
    assert (found.problems, found.notes, found.rows) == ((), (), len(rows))
    assert [(entry.version, entry.action, entry.rows) for entry in table.history()] == [(0, "adopt", len(rows))]


def test_what_spark_wrote(spark: SparkSession, uri: str) -> None:
    """Partitioned by two columns that are in paths alone; timestamps as INT96, decimals as integers."""
    frame = spark.range(500).selectExpr(
        "md5(cast(id as string)) as id",
        "cast(id as int) as n",
        "timestamp_micros(id * 1000003) as at",
        "cast(timestamp_seconds(id) as timestamp_ntz) as local",
        "cast(id / 4 as decimal(9,2)) as price",
        "cast(id as decimal(30,5)) as large",
        "if(id % 7 = 0, double('nan'), id / 3) as x",
        "if(id % 5 = 0, null, date_add(date'2026-01-01', cast(id as int))) as d",
        "array(id) as list",
        "named_struct('a', id) as part",
        "cast(id % 2 as string) as note",
        "id % 3 as shard",
        "date_add(date'2026-11-01', cast(id % 2 as int)) as day",
    )
    frame.repartition(3).write.partitionBy("day", "shard").parquet(uri)
    before = files_of(uri)
    table = nf.Table.adopt(uri, key="id", partition_by=["day", "shard"], bloom_columns=["n", "x"])
    assert files_of(uri) == before
    assert (table.schema.field("at").type, table.schema.field("day").type) == (pa.timestamp("us", tz="UTC"), pa.date32())
    rows = [row | {"at": row["at"].replace(tzinfo=UTC)} for row in (row.asDict(recursive=True) for row in frame.collect())]
    nan = [row.pop("x") for row in rows]
    assert sum(value != value for value in nan) == 72
    check = [{name: value for name, value in row.items() if name != "x"} for row in table.scan().to_pylist()]
    assert sorted(check, key=lambda row: row["n"]) == sorted(rows, key=lambda row: row["n"])
    assert [row["n"] for row in table.find(n=77).to_pylist()] == [77]
    assert len(table.find(x=float("nan"))) == 72
    assert [row["n"] for row in table.find(at=datetime(1970, 1, 1, 0, 1, 17, 231, tzinfo=UTC)).to_pylist()] == [77]
    scan = table.scan(where="day = '2026-11-02' and shard = 2 and n < 100")
    assert sorted(row["n"] for row in scan.to_pylist()) == [n for n in range(100) if n % 2 == 1 and n % 3 == 2]
    assert scan.receipt.mode == "single partition"
    assert table.to_spark(spark).where("day = date'2026-11-02'").count() == 250
    found = table.verify()
    assert (found.problems, found.notes) == ((), ())


def test_what_pyarrow_wrote_in_no_order(spark: SparkSession, uri: str) -> None:
    """Folders that are only folders, several row groups, other physical types, rows in no order."""
    rows = [
        {
            "k": f"key {number * 37 % 300:03}",
            "at": datetime(2026, 11, 1, 0, number % 60, tzinfo=UTC),
            "price": Decimal(number) / 8,
            "raw": bytes([number % 256]),
            "small": number % 100,
            "kind": ["a", "b", None][number % 3],
        }
        for number in range(300)
    ]
    schema = pa.schema(
        [
            ("k", pa.large_string()),
            ("at", pa.timestamp("ms", tz="Europe/Berlin")),
            ("price", pa.decimal128(12, 3)),
            ("raw", pa.binary(1)),
            ("small", pa.uint8()),
            ("kind", pa.dictionary(pa.int32(), pa.string())),
        ]
    )
    Path(uri, "one/deep").mkdir(parents=True)
    for number, name in enumerate(("one/deep/x.parquet", "one/y", "z.snappy.parquet")):
        part = pa.Table.from_pylist(rows[number::3], schema=schema)
        pq.write_table(part, Path(uri, name), row_group_size=17, store_decimal_as_integer=True, write_page_index=True)
    Path(uri, "_SUCCESS").touch()
    Path(uri, ".hidden").mkdir()
    Path(uri, ".hidden/x.parquet").write_text("not Parquet")
    table = nf.Table.adopt(uri, key="k")
    check_table(table, rows, "k", spark)
    assert table.describe().files == 3
    assert sorted(row["k"] for row in table.scan(key_range=("key 100", "key 102")).to_pylist()) == ["key 100", "key 101", "key 102"]


def test_what_duckdb_wrote(spark: SparkSession, uri: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT i AS id, 'host ' || i % 4 AS host, i * 1.25::DECIMAL(9,2) AS price, TIMESTAMP '2026-11-01' + INTERVAL (i) SECOND AS at,
            i % 2 = 0 AS even, DATE '2026-11-01' AS day, CASE WHEN i % 3 = 0 THEN NULL ELSE i::DOUBLE END AS x
            FROM range(1000) t(i)) TO '{uri}' (FORMAT parquet, PARTITION_BY (host), ROW_GROUP_SIZE 2048)"""
        )
        rows = connection.sql(f"SELECT * FROM read_parquet('{uri}/*/*.parquet', hive_partitioning = true)").to_arrow_table().to_pylist()
    table = nf.Table.adopt(uri, key="id", partition_by="host", bloom_columns="price")
    check_table(table, rows, "id", spark)
    assert [row["id"] for row in table.find(price=Decimal("100.00")).to_pylist()] == [80]
    assert sorted(row["id"] for row in table.scan(where="host = 'host 3' and id < 10").to_pylist()) == [3, 7]


def write(uri: str, name: str, **columns: Any) -> None:
    Path(uri, name).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), Path(uri, name))


def test_computed_partitions_come_from_the_rows(spark: SparkSession, uri: str) -> None:
    for day in (1, 2):
        moments = pa.array([datetime(2026, 11, day, hour, tzinfo=UTC) for hour in range(24)], pa.timestamp("us", "UTC"))
        write(uri, f"part{day}.parquet", id=[f"{day}-{hour}" for hour in range(24)], at=moments)
    table = nf.Table.adopt(uri, key="id", partition_by=["day(at)"])
    scan = table.scan(partitions={"day": "2026-11-02"})
    assert scan.count() == 24
    assert scan.receipt.files_read == 1
    assert table.verify().problems == ()


def test_narrower_files_fit_a_wider_schema(spark: SparkSession, uri: str) -> None:
    write(
        uri,
        "a.parquet",
        id=pa.array([1, 2], pa.int32()),
        x=pa.array([0.5, None], pa.float32()),
        d=pa.array([Decimal("1.5"), None], pa.decimal128(5, 1)),
    )
    write(
        uri,
        "b.parquet",
        d=pa.array([Decimal("2.25")], pa.decimal128(9, 2)),
        id=pa.array([2**40], pa.int64()),
        x=pa.array([0.1], pa.float64()),
    )
    with pytest.raises(nf.InvalidError, match=r"b.parquet: column 'id' is int64, but the table has int32"):
        nf.Table.adopt(uri, key="id")
    table = nf.Table.adopt(uri, key="id", schema="id int64, x double, d decimal(12,2)", bloom_columns=["x", "d"])
    rows = [
        {"id": 1, "x": 0.5, "d": Decimal("1.50")},
        {"id": 2, "x": None, "d": None},
        {"id": 2**40, "x": 0.1, "d": Decimal("2.25")},
    ]
    check_table(table, rows, "id", spark)
    assert [row["id"] for row in table.find(x=0.5).to_pylist()] == [1]
    assert [row["id"] for row in table.find(d=Decimal("2.25")).to_pylist()] == [2**40]


def test_path_values_of_every_kind(spark: SparkSession, uri: str) -> None:
    for number, host in enumerate(("a%2Fb", "__HIVE_DEFAULT_PARTITION__", "é", "2026-01-01x")):
        write(uri, f"host={host}/n={number - 1:02}/f.parquet", id=[number])
    table = nf.Table.adopt(uri, key="id", partition_by=["host", "n"])
    rows = [{"id": n, "host": host, "n": n - 1} for n, host in enumerate(("a/b", None, "é", "2026-01-01x"))]
    check_table(table, rows, "id", spark)
    assert table.find(host="a/b").to_pylist() == [rows[0]]
    assert table.scan(where="host is null").to_pylist() == [rows[1]]


def test_a_key_column_may_be_in_the_path(spark: SparkSession, uri: str) -> None:
    for day in (1, 2):
        write(uri, f"day=2026-11-0{day}/f.parquet", id=[1, 2])
    table = nf.Table.adopt(uri, key=["day", "id"], partition_by="day")
    assert table.find([(date(2026, 11, 2), 1)]).to_pylist() == [{"id": 1, "day": date(2026, 11, 2)}]
    assert table.verify().problems == ()


def test_an_adopted_table_is_a_table(spark: SparkSession, uri: str) -> None:
    """It can be appended to, tagged, rebuilt from nothing, and read with both kinds of files."""
    write(uri, "host=a/f.parquet", id=[3, 1, 2], n=[30, 10, 20])
    table = nf.Table.adopt(uri, key="id", partition_by="host")
    table.append(spark.createDataFrame([(4, 40, "a"), (5, 50, "b")], "id bigint, n bigint, host string"))
    rows = [{"id": n, "n": n * 10, "host": "b" if n == 5 else "a"} for n in range(1, 6)]
    for kind in ("files", "column_stats", "bloom_filters"):
        for path in Path(uri, "_needlefish/metadata", "files").iterdir():
            path.unlink()
        assert table.rebuild("files").lost == ()
        assert table.rebuild(kind).lost == ()
        assert sorted(nf.Table.open(uri).scan().to_pylist(), key=lambda row: row["id"]) == rows
    assert table.find(n=[20, 50]).to_pylist() in ([rows[1], rows[4]], [rows[4], rows[1]])
    assert sorted(row.asDict()["id"] for row in table.to_spark(spark).collect()) == [1, 2, 3, 4, 5]
    assert table.verify().problems == ()


def test_empty_files_are_left_out(spark: SparkSession, uri: str) -> None:
    write(uri, "a.parquet", id=pa.array([], pa.int64()))
    write(uri, "b.parquet", id=[1])
    table = nf.Table.adopt(uri, key="id")
    assert (table.describe().files, table.scan().to_pylist()) == (1, [{"id": 1}])


def test_the_same_key_in_two_partitions_is_two_rows(spark: SparkSession, uri: str) -> None:
    write(uri, "host=a/f.parquet", id=[1])
    write(uri, "host=b/f.parquet", id=[1])
    with pytest.raises(nf.InvalidError, match=r"the key {'id': 1} is in host=a/f.parquet and in host=b/f.parquet"):
        nf.Table.adopt(uri, key="id", partition_by="host", properties={"global_keys": True})
    assert len(nf.Table.adopt(uri, key="id", partition_by="host").find(id=1)) == 2


def nothing(uri: str) -> None:
    Path(uri).mkdir()
    Path(uri, "_SUCCESS").touch()


def no_parquet(uri: str) -> None:
    write(uri, "a.parquet", id=[1])
    Path(uri, "notes.txt").write_text("remember to adopt this")


def nanoseconds(uri: str) -> None:
    write(uri, "a.parquet", id=[1], at=pa.array([1], pa.timestamp("ns")))


def other_columns(uri: str) -> None:
    write(uri, "a.parquet", id=[1], n=[1])
    write(uri, "b.parquet", id=[2], m=[1])


def fewer_columns(uri: str) -> None:
    write(uri, "a.parquet", id=[1], n=[1])
    write(uri, "b.parquet", id=[2])


def other_types(uri: str) -> None:
    write(uri, "a.parquet", id=[1], n=["1"])
    write(uri, "b.parquet", id=[2], n=[1])


def null_key(uri: str) -> None:
    write(uri, "a.parquet", id=[1, None])


def twice_in_one(uri: str) -> None:
    write(uri, "a.parquet", id=[3, 1, 2, 3])


def twice_in_two(uri: str) -> None:
    write(uri, "a.parquet", id=[1, 5, 9])
    write(uri, "b.parquet", id=[8, 5, 2])


def equal_floats(uri: str) -> None:
    write(uri, "a.parquet", id=[1.0, -0.0])
    write(uri, "b.parquet", id=[0.0, float("nan")])


def unnamed_path(uri: str) -> None:
    write(uri, "day=2026-11-01/a.parquet", id=[1])


def damaged(uri: str) -> None:
    write(uri, "a.parquet", id=[1])
    write(uri, "b.parquet", id=[2])
    data = Path(uri, "b.parquet").read_bytes()
    Path(uri, "b.parquet").write_bytes(data[:-8] + b"\xff\xff\xff\x00PAR1")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (nothing, nf.InvalidError, "there are no files to adopt"),
        (no_parquet, nf.InvalidError, r"notes.txt is no Parquet file.*begin its name with _"),
        (nanoseconds, nf.InvalidError, r"a.parquet: column 'at' has type timestamp\[ns\]"),
        (other_columns, nf.InvalidError, "b.parquet has column 'm', which the table's schema does not have"),
        (fewer_columns, nf.InvalidError, "b.parquet lacks column 'n'"),
        (other_types, nf.InvalidError, "b.parquet: column 'n' is int64, but the table has string"),
        (null_key, nf.InvalidError, "a.parquet has a null in key column 'id'"),
        (twice_in_one, nf.InvalidError, "a.parquet has the key {'id': 3} more than once"),
        (twice_in_two, nf.InvalidError, "the key {'id': 5} is in a.parquet and in b.parquet"),
        (equal_floats, nf.InvalidError, r"the key {'id': -?0.0} is in a.parquet and in b.parquet"),
        (unnamed_path, nf.InvalidError, "column 'day' is in the path alone; add 'day' to partition_by"),
        (damaged, nf.CorruptError, "b.parquet: the footer claims"),
    ],
)
def test_what_cannot_be_a_table_is_refused_and_nothing_shows(uri: str, make: Any, error: type[Exception], words: str) -> None:
    make(uri)
    with pytest.raises(error, match=words):
        nf.Table.adopt(uri, key="id")
    with pytest.raises(nf.NotFoundError):
        nf.Table.open(uri)


def test_a_file_of_two_partitions_is_refused(uri: str) -> None:
    write(uri, "a.parquet", id=[1, 2], day=[date(2026, 11, 1), date(2026, 12, 1)])
    with pytest.raises(nf.InvalidError, match=r"a.parquet has rows of the partitions month=2026-11 and month=2026-12"):
        nf.Table.adopt(uri, key="id", partition_by="month(day)")
    assert nf.Table.adopt(uri, key="id", partition_by="year(day)").scan().count() == 2


def test_wrong_arguments_are_refused(uri: str) -> None:
    write(uri, "n=x/a.parquet", id=[1])
    with pytest.raises(nf.InvalidError, match="key names column 'key'"):
        nf.Table.adopt(uri, key="key", partition_by="n")
    with pytest.raises(nf.InvalidError, match=r"n=x/a.parquet: .*'x'"):
        nf.Table.adopt(uri, key="id", partition_by="n", schema="id int64, n int64")
    with pytest.raises(nf.InvalidError, match=r"a.parquet: column 'n' is in the path alone"):
        nf.Table.adopt(uri, key="id", partition_by="prefix(n, 1) as p")


def test_a_table_that_is_there_already(uri: str) -> None:
    nf.Table.create(uri, "id int64", key="id")
    write(uri, "a.parquet", id=[1])
    with pytest.raises(nf.AlreadyExistsError, match="holds a table already"):
        nf.Table.adopt(uri, key="id")


def test_what_a_crash_left_does_not_stand_in_the_way(uri: str) -> None:
    """Runs that no entry names are what a killed adoption leaves."""
    write(uri, "a.parquet", id=[1, 2])
    for kind in ("files", "column_stats", "bloom_filters"):
        path = Path(uri, "_needlefish/metadata", kind, "0" * 32 + ".arrow")
        path.parent.mkdir(parents=True)
        path.write_text("half a run")
    table = nf.Table.adopt(uri, key="id")
    assert (table.scan().count(), table.verify().problems) == (2, ())


def test_a_bucket_is_adopted_verified_and_rebuilt(spark: SparkSession, s3: S3Server) -> None:
    config = s3.config("adopt")
    store, options = open_store(config), dict(config.options)
    for day in (1, 2):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [f"{day}{n}" for n in range(50)]}), sink)
        store.put(f"day=2026-11-0{day}/part-0.parquet", sink.getvalue().to_pybytes())
    table = nf.Table.adopt(config.uri, key="id", partition_by="day", storage_options=options)
    assert table.find(id="27").to_pylist() == [{"id": "27", "day": date(2026, 11, 2)}]
    run = next(found.path for found in store.list("_needlefish/metadata/files/"))
    store.delete([run])
    assert [problem.object for problem in table.verify().problems] == [run]
    with pytest.raises(nf.CorruptError, match=run):
        nf.Table.open(config.uri, storage_options=options).scan().count()
    assert table.rebuild("files").lost == ()
    assert table.verify().problems == ()
    assert table.scan().count() == 100
