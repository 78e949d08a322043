"""Reading through `format("needlefish")` with a real Spark: rows, versions, reuse of frames, SQL."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Protocol

import pytest
from pyspark.sql import DataFrame, SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, open_store
from needlefish.testing.tables import append_rows, build_table, scan_table, skip_rows

SCHEMA = (
    "id string, n int64, u uint64, b boolean, d decimal(9,2), ts timestamp, nt timestamp_ntz, day date, x double, data binary, "
    "tags list<string>, place struct<lat:double,name:string>, counts map<string,int64>"
)


def row(number: int) -> dict[str, object]:
    moment = datetime(2026, 11, 1 + number % 3, 12, tzinfo=UTC)
    return {
        "id": f"k{number:03}",
        "n": number,
        "u": 2**64 - 1 - number,
        "b": number % 2 == 0,
        "d": Decimal(number) / 4,
        "ts": moment,
        "nt": moment.replace(tzinfo=None),
        "day": moment.date(),
        "x": number / 3,
        "data": bytes([number % 256]),
        "tags": ["a", None],
        "place": {"lat": 1.5, "name": None},
        "counts": [("k", number)],
    }


@pytest.fixture
def store(uri: str) -> RetriedStore:
    return open_store(StoreConfig(uri=uri))


@pytest.fixture
def state(store: RetriedStore) -> TableState:
    """200 rows in three partitions, of which every seventh is hidden."""
    state = build_table(store, SCHEMA, "id", map(row, range(100)), partition_by=["day"], indexes=None, properties={"granule_rows": 16})
    state = append_rows(store, state, map(row, range(100, 200)))
    return skip_rows(store, state, lambda found: int(str(found["n"])) % 7 == 0)


class Load(Protocol):
    """Loads the table with options."""

    def __call__(self, **options: object) -> DataFrame: ...


@pytest.fixture
def load(spark: SparkSession, uri: str) -> Load:
    nf.register(spark)

    def loaded(**options: object) -> DataFrame:
        return spark.read.format("needlefish").options(**options).load(uri)  # type: ignore[arg-type]

    return loaded


def numbers(frame: DataFrame) -> list[int]:
    return sorted(found.n for found in frame.select("n").collect())


VISIBLE = [n for n in range(200) if n % 7]


def test_rows_come_as_to_spark_has_them(spark: SparkSession, uri: str, state: TableState, load: Load) -> None:
    frame = load()
    other = nf.Table.open(uri).to_spark(spark)
    assert frame.dtypes == other.dtypes
    assert sorted(map(repr, frame.collect())) == sorted(map(repr, other.collect()))
    assert numbers(frame) == VISIBLE


def test_queries_of_one_frame_do_not_mix(state: TableState, load: Load) -> None:
    """Spark 4.3 reads with the filters that it pushed last, whichever query asks; so nothing is pushed unless somebody wants it."""
    frame = load()
    assert numbers(frame.where("n < 10")) == [n for n in VISIBLE if n < 10]
    assert frame.count() == len(VISIBLE)
    both = frame.where("n < 50").unionAll(frame.where("n >= 50"))
    assert numbers(both) == VISIBLE
    narrowed = load(where="n < 10")
    assert (narrowed.where("n > 5").count(), narrowed.count()) == (3, 8)


def test_filters_are_pushed_where_somebody_wants_it(state: TableState, load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    frame = load(pushdown=True).where("id = 'k017' and n > 3 and tags is not null and id not like '%x_'")
    assert numbers(frame) == [17]
    frame.explain("formatted")
    plan = capsys.readouterr().out
    assert "PushedFilters: [EqualTo(id,k017), GreaterThan(n,3)" in plan.replace("IsNotNull(n), ", "")
    assert "isnotnull(tags" in plan, "nested columns are Spark's"


def test_a_frame_stays_on_its_version(store: RetriedStore, state: TableState, load: Load) -> None:
    frame = load()
    append_rows(store, state, [row(500)])
    assert frame.count() == len(VISIBLE)
    assert load().count() == len(VISIBLE) + 1
    assert numbers(load(version=state.version)) == VISIBLE
    assert load(timestamp="2200-01-01T00:00:00Z").count() == len(VISIBLE) + 1
    with pytest.raises(Exception, match=r"InvalidError: timestamp .* was created; give a later one"):
        load(timestamp="1999-01-01")


def test_columns_and_partitions(state: TableState, load: Load) -> None:
    frame = load(columns="n, day", partitions='{"day": "2026-11-02"}')
    assert frame.columns == ["n", "day"]
    assert numbers(frame) == [n for n in VISIBLE if n % 3 == 1]


def test_a_wrong_option_is_told_by_its_name(state: TableState, load: Load) -> None:
    with pytest.raises(Exception, match="InvalidError: option 'vrsion' is '3', which nobody reads; known are path, version"):
        load(vrsion=3)


def test_sql_declares_selects_and_makes_views(spark: SparkSession, uri: str, store: RetriedStore, state: TableState, load: Load) -> None:
    def one(query: str) -> object:
        return spark.sql(query).collect()[0][0]

    try:
        spark.sql(f"CREATE TABLE declared_requests USING needlefish OPTIONS (path '{uri}')")
        spark.sql("CREATE VIEW declared_few AS SELECT id, n FROM declared_requests WHERE n < 10")
        spark.sql(f"CREATE TEMPORARY VIEW fixed USING needlefish OPTIONS (path '{uri}', columns 'n')")
        assert one("SELECT count(*) FROM declared_requests") == len(VISIBLE)
        assert one("SELECT max(n) FROM declared_requests WHERE id IN ('k003', 'k004')") == 4
        assert one("SELECT count(*) FROM declared_few") == 8
        assert one("SELECT count(*) FROM fixed") == len(VISIBLE)
        assert one("SELECT max(n) FROM declared_requests WITH (where = \"id = 'k005'\")") == 5

        append_rows(store, state, [row(500)])
        assert one("SELECT count(*) FROM declared_requests") == len(VISIBLE) + 1, "a declared table is the newest version"
        assert one("SELECT count(*) FROM fixed") == len(VISIBLE), "a temporary view stays on its version"
        assert one(f"SELECT count(*) FROM declared_requests WITH (version = {state.version})") == len(VISIBLE)
    finally:
        for statement in ("DROP VIEW IF EXISTS declared_few", "DROP VIEW IF EXISTS fixed", "DROP TABLE IF EXISTS declared_requests"):
            spark.sql(statement)
    assert Path(uri, "data").exists(), "dropping the declaration leaves the table"
    assert scan_table(store, nf.Table.open(uri)._state, columns=["n"])[0].num_rows == len(VISIBLE) + 1
