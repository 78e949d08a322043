"""Upserts and deletes on Spark against a dict, through scan, find and `to_spark`; and what is refused before a byte is written."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import needlefish as nf
from needlefish.errors import InvalidError
from needlefish.format.log_entry import log_path

SCHEMA = "id bigint, host string, day date, n int, s string"
TABLE_SCHEMA = "id int64, host string, day date, n int32, s string"
DAYS = [date(2026, 11, 1), date(2026, 11, 2)]
SMALL = {"chunkset_rows": 40, "granule_rows": 10}
Row = dict[str, Any]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "by host": {"partition_by": ["host"]},
    "global": {"partition_by": ["host", "day"], "properties": {"global_keys": True}},
}


def create(uri: str, **options: Any) -> nf.Table:
    properties = {**SMALL, **options.pop("properties", {})}
    return nf.Table.create(uri, TABLE_SCHEMA, key="id", properties=properties, **options)


def drawn(random: Random, count: int, note: str, ids: int = 150) -> list[Row]:
    return [
        {
            "id": random.randrange(ids),
            "host": random.choice("ab"),
            "day": random.choice(DAYS),
            "n": random.choice([None, *range(6)]),
            "s": f"{note} {number}",
        }
        for number in range(count)
    ]


def frame(spark: SparkSession, rows: Iterable[Row], schema: str = SCHEMA, tasks: int = 1) -> DataFrame:
    """In order: of equal keys the last row counts, and one task reads them as they are given."""
    names = [part.split()[0] for part in schema.split(", ")]
    made = spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)
    return made.coalesce(1) if tasks == 1 else made.repartition(tasks, "id")


def key_of(kind: str) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    return (lambda row: (row["id"], row["host"])) if kind == "by host" else (lambda row: (row["id"],))


def rank(row: Row) -> tuple[bool, int]:
    return row["n"] is not None, row["n"] or 0


def apply(stored: dict[Any, Row], rows: Iterable[Row], kind: str, *, ordered: bool) -> dict[str, int]:
    """The model, and what the result should say. Rows with `gone` are deletes."""
    chosen: dict[Any, Row] = {}
    rows, key = list(rows), key_of(kind)
    for row in rows:
        if not ordered or key(row) not in chosen or rank(row) >= rank(chosen[key(row)]):
            chosen[key(row)] = row
    counts = dict.fromkeys(("inserted", "replaced", "late", "deleted"), 0) | {"duplicates": len(rows) - len(chosen)}
    for at, row in chosen.items():
        old, gone = stored.get(at), row.get("gone", False)
        if ordered and old is not None and rank(old) > rank(row):
            counts["late"] += not gone
        elif gone:
            counts["deleted"] += stored.pop(at, None) is not None
        else:
            counts["inserted" if old is None else "replaced"] += 1
            stored[at] = {name: value for name, value in row.items() if name != "gone"}
    return counts


def values(table: nf.Table, column: str, **where: Any) -> list[Any]:
    rows: Any = (table.find(**where) if where else table.scan()).to_pylist()
    return sorted(row[column] for row in rows)


def check(spark: SparkSession, table: nf.Table, expected: dict[Any, Row], kind: str) -> None:
    """A scan, a find of every key and some more, and a frame: each shows every key once, with the model's row."""
    ids = sorted({row["id"] for row in expected.values()} | set(range(0, 200, 7)))
    shown = {
        "scan": table.scan().to_pylist(),
        "find": table.find(id=ids).to_pylist(),
        "to_spark": [row.asDict() for row in table.to_spark(spark).collect()],
    }
    for name, rows in shown.items():
        assert len(rows) == len(expected), name
        assert {key_of(kind)(row): row for row in rows} == expected, name
    assert table.describe().rows == len(expected)


def objects(uri: str) -> set[str]:
    return {str(found) for found in Path(uri).rglob("*") if found.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_random_changes_leave_what_a_dict_has(spark: SparkSession, uri: str, kind: str) -> None:
    table, stored, random = create(uri, **KINDS[kind]), dict[Any, Row](), Random(11)
    for number, ordered in enumerate([False, True, True]):
        rows = drawn(random, 120, f"v{number}")
        if number == 2:
            rows = [row | {"gone": random.random() < 0.3} for row in rows]
        df = frame(spark, rows, SCHEMA + (", gone boolean" if number == 2 else ""))
        result = table.upsert(df, "n" if ordered else None, deleted_by="gone" if number == 2 else None)
        counts = apply(stored, rows, kind, ordered=ordered)
        assert {name: getattr(result, name) for name in counts} == counts
        assert (result.repeated, result.healed, result.version) == (False, 0, table.version)
        assert len(table.history()) == number + 2
        assert result.files > 0 < result.bytes
        assert {"write", "compare", "commit"} <= set(result.stages)
    check(spark, table, stored, kind)
    keys = drawn(random, 60, "")
    deleted = table.delete(frame(spark, keys))
    distinct = {key_of(kind)(row) for row in keys}
    gone = sum(stored.pop(key, None) is not None for key in distinct)
    assert (deleted.deleted, deleted.absent, deleted.duplicates) == (gone, len(distinct) - gone, 60 - len(distinct))
    matching = [key for key, row in stored.items() if row["host"] == "a" and (row["n"] or 0) >= 4]
    assert table.delete(where="host = 'a' and n >= 4").deleted == sum(stored.pop(key) is not None for key in matching)
    check(spark, nf.Table.open(uri), stored, kind)
    assert not table.verify().problems


def test_many_tasks_write_every_key_once(spark: SparkSession, uri: str) -> None:
    table = create(uri, partition_by=["host"])
    before = [{"id": number, "host": "ab"[number % 2], "day": DAYS[0], "n": 0, "s": "old"} for number in range(2_000)]
    table.append(frame(spark, before))
    after = [row | {"s": "new", "n": 1} for row in before[::3]] + [row | {"id": int(str(row["id"])) + 10_000} for row in before[:100]]
    result = table.upsert(frame(spark, after, tasks=7))
    assert (result.inserted, result.replaced, result.duplicates) == (100, len(before[::3]), 0)
    check(spark, table, {(row["id"], row["host"]): row for row in [*before, *after]}, "by host")
    assert not table.verify().problems


def test_a_batch_counts_once(spark: SparkSession, uri: str) -> None:
    table = create(uri)
    row = {"id": 1, "host": "a", "day": DAYS[0], "n": 1, "s": "first"}
    assert table.upsert(frame(spark, [row]), batch=("etl", 17)).inserted == 1
    for number in (17, 3):
        files = objects(uri)
        again = table.upsert(frame(spark, [row | {"s": "again"}]), batch=("etl", number))
        assert (again.repeated, again.inserted, again.replaced, again.version) == (True, 0, 0, table.version)
        assert objects(uri) == files
    assert table.delete(frame(spark, [row]), batch=("etl", 17)).repeated
    assert table.delete(where="id = 1", batch=("etl", 17)).repeated
    assert table.upsert(frame(spark, [row | {"s": "next"}]), batch=("etl", 18)).replaced == 1
    assert table.upsert(frame(spark, [row | {"s": "other"}]), batch=("other", 1)).replaced == 1
    assert [found["s"] for found in table.scan().to_pylist()] == ["other"]


def test_a_global_key_moves_and_a_plain_one_does_not(spark: SparkSession, tmp_path: Path) -> None:
    row = {"id": 1, "host": "a", "day": DAYS[0], "n": 1, "s": "first"}
    for is_global, expected in ((True, ["b"]), (False, ["a", "b"])):
        table = create(str(tmp_path / str(is_global)), partition_by=["host"], properties={"global_keys": is_global})
        table.upsert(frame(spark, [row]))
        result = table.upsert(frame(spark, [row | {"host": "b"}]))
        assert (result.inserted, result.replaced) == ((0, 1) if is_global else (1, 0))
        assert values(table, "host", id=1) == expected
        assert sorted(found["host"] for found in table.to_spark(spark).collect()) == expected


def test_a_frame_that_differs_each_time_leaves_every_key_once(spark: SparkSession, uri: str) -> None:
    table = create(uri, partition_by=["host"], properties={"global_keys": True})
    df = spark.range(0, 400, 1, 4).select(
        (sf.floor(sf.rand() * 120)).alias("id"),
        sf.when(sf.rand() < 0.5, "a").otherwise("b").alias("host"),
        sf.lit(DAYS[0]).alias("day"),
        (sf.rand() * 9).cast("int").alias("n"),
        sf.uuid().alias("s"),
    )
    for _ in range(2):
        result = table.upsert(df)
        assert result.inserted + result.replaced + result.duplicates == 400
    rows = table.scan().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows) == table.describe().rows
    assert sorted(row["s"] for row in table.to_spark(spark).collect()) == values(table, "s")
    assert not table.verify().problems


def test_the_last_of_equal_rows_counts(spark: SparkSession, uri: str) -> None:
    table = create(uri)
    rows = [{"id": number % 3, "host": "a", "day": DAYS[0], "n": number // 6, "s": str(number)} for number in range(12)]
    assert table.upsert(frame(spark, rows)).duplicates == 9
    assert values(table, "s") == ["10", "11", "9"]
    # The same order, when `order_by` leaves a choice; the last of the greatest.
    table.upsert(frame(spark, [*rows, rows[0] | {"s": "late"}]), "n")
    assert values(table, "s") == ["10", "11", "9"]


GOOD = {"id": 1, "host": "a", "day": DAYS[0], "n": 1, "s": "x"}
REFUSALS: dict[str, tuple[Callable[[nf.Table, SparkSession], object], str]] = {
    "null key": (lambda t, spark: t.upsert(frame(spark, [GOOD, GOOD | {"id": None}])), "null in key column 'id'"),
    "no key": (lambda t, spark: t.upsert(frame(spark, [GOOD]).drop("id")), "lacks column 'id'"),
    "wrong type": (lambda t, spark: t.upsert(frame(spark, [GOOD]).withColumn("n", sf.lit("7"))), "column 'n' is string"),
    "too wide": (lambda t, spark: t.upsert(frame(spark, [GOOD]).withColumn("n", sf.lit(7).cast("bigint"))), "column 'n' is int64"),
    "unknown column": (lambda t, spark: t.upsert(frame(spark, [GOOD]).withColumn("x", sf.lit(1))), "'x', which the table does not have"),
    "unknown order": (lambda t, spark: t.upsert(frame(spark, [GOOD]), "ts"), "order_by.*'ts'"),
    "order is no name": (lambda t, spark: t.upsert(frame(spark, [GOOD]), 3), "order_by is 3"),  # type: ignore[arg-type]
    "mark is no boolean": (
        lambda t, spark: t.upsert(frame(spark, [GOOD]).withColumn("gone", sf.lit(1)), deleted_by="gone"),
        "deleted_by names column 'gone' of df, which is int32",
    ),
    "no mark": (lambda t, spark: t.upsert(frame(spark, [GOOD]), deleted_by="gone"), "which is not there"),
    "batch": (lambda t, spark: t.upsert(frame(spark, [GOOD]), batch=("etl", "x")), "batch"),  # type: ignore[arg-type]
    "delete null": (lambda t, spark: t.delete(frame(spark, [GOOD | {"id": None}])), "null in key column 'id'"),
    "delete no key": (lambda t, spark: t.delete(frame(spark, [GOOD]).drop("id")), "lacks column 'id'"),
    "delete no partition": (lambda t, spark: t.delete(frame(spark, [GOOD]).drop("day")), "lacks column 'day'"),
    "delete nothing": (lambda t, spark: t.delete(), "exactly one"),
    "delete where": (lambda t, spark: t.delete(where="x = 1"), "'x'"),
}


FOUND_BY_TASKS = ("null key", "delete null")


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_right_is_refused_before_anything_is_written(spark: SparkSession, uri: str, name: str) -> None:
    change, message = REFUSALS[name]
    table = create(uri, partition_by=["day"])
    table.upsert(frame(spark, [GOOD]))
    files = objects(uri)
    with pytest.raises(InvalidError, match=message):
        change(table, spark)
    # Only rows that tasks have to look at are refused after the work has begun: the steps of its instant are in the log.
    steps = [entry.version for entry in nf.Table.open(uri).history(2, steps=True)] if name in FOUND_BY_TASKS else []
    assert objects(uri) == files | {str(Path(uri, log_path(version))) for version in steps}
    assert [entry.action for entry in nf.Table.open(uri).history()] == ["upsert", "create"]
    assert table.scan().to_pylist() == [GOOD]


def test_a_table_that_was_changed_since_refuses_frames_of_before(spark: SparkSession, uri: str) -> None:
    table = create(uri)
    table.upsert(frame(spark, [GOOD]))
    nf.Table.open(uri).evolve(drop=["s"])
    files = objects(uri)
    with pytest.raises(InvalidError, match="'s', which the table does not have"):
        table.upsert(frame(spark, [GOOD]))
    assert objects(uri) == files
    assert table.upsert(frame(spark, [GOOD]).drop("s")).replaced == 1
