"""Point indexes on Spark: runs of tasks become one, parts are made by tasks, and every road to an index leads to the same one."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.format.granule_table import GranuleRef
from needlefish.index.point_kinds import point_reader
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, open_store
from needlefish.table.point import consolidate
from needlefish.timeline import read_newest

SCHEMA = "id string, user bigint, host string"
SMALL = {"granule_rows": 50, "chunkset_rows": 300}
KINDS = ("postings", "cuckoo")


@pytest.fixture
def several_tasks(spark: SparkSession) -> Iterator[None]:
    """Spark would join such small ranges into one."""
    spark.conf.set("spark.sql.shuffle.partitions", "3")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    yield
    spark.conf.unset("spark.sql.shuffle.partitions")
    spark.conf.unset("spark.sql.adaptive.enabled")


def frame(spark: SparkSession, first: int, end: int, tasks: int = 3) -> DataFrame:
    rows = [(f"{number * 7919 % 100_003:06}", number % 500, f"h{number % 3}") for number in range(first, end)]
    return spark.createDataFrame(rows, SCHEMA).repartition(tasks)


def state_of(uri: str) -> tuple[RetriedStore, TableState]:
    store = open_store(StoreConfig(uri=uri))
    return store, read_newest(store)


def admitted(uri: str, name: str) -> list[set[GranuleRef]]:
    """What an index says to some hashes, in the granules' own names."""
    store, state = state_of(uri)
    asked = np.random.default_rng(1).integers(0, 2**64, 2_000, np.uint64)
    found: list[set[GranuleRef]] = [set() for _ in asked]
    for run in state.runs_of(f"index/{name}"):
        hits = point_reader(run).probe(store, asked)
        for place, ref in zip(hits.places.tolist(), point_reader(run).granules(store, hits.ordinals.tolist()), strict=True):
            found[place].add(ref)
    return found


def check(table: nf.Table, index: str, end: int) -> None:
    for number in (0, 7, end - 1):
        found = table.find(id=f"{number * 7919 % 100_003:06}")
        assert [(row["user"], row["host"]) for row in found.to_pylist()] == [(number % 500, f"h{number % 3}")]
        by_user = table.find(user=number % 500)
        assert sorted(by_user.to_arrow()["id"].to_pylist()) == sorted(f"{n * 7919 % 100_003:06}" for n in range(number % 500, end, 500))
        assert by_user.receipt.index.startswith(index)
    assert len(table.find(user=700)) == 0


@pytest.mark.usefixtures("several_tasks")
@pytest.mark.parametrize("kind", KINDS)
def test_an_append_of_several_tasks_adds_one_run_of_each_index(spark: SparkSession, uri: str, kind: str) -> None:
    indexes = [nf.PointIndex("id", kind=kind), nf.PointIndex("user", kind=kind)]
    table = nf.Table.create(uri, SCHEMA, key="id", indexes=indexes, properties=SMALL)
    table.append(frame(spark, 0, 1_500))
    table.append(frame(spark, 1_500, 2_000))
    store, state = state_of(uri)
    assert state.totals.files >= 4
    assert [len(state.runs_of(f"index/{name}")) for name in ("id", "user")] == [2, 2]
    stored = {found.path.rsplit("/", 1)[1] for found in store.list("_needlefish/index/")}
    assert len(stored) == 4, "the runs of single tasks are gone"
    check(table, f"{kind} 'user', 2 runs", 2_000)
    assert not table.verify().problems


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_made_later_equals_the_one_of_appends(spark: SparkSession, uri: str, kind: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id", indexes=[nf.PointIndex("user", kind=kind, name="early")], properties=SMALL)
    table.append(frame(spark, 0, 1_500))
    table.append(frame(spark, 1_500, 2_000))
    result = table.create_index(nf.PointIndex("user", kind=kind, name="late"))
    _, state = state_of(uri)
    keys = sum(run.point.keys for run in state.runs_of("index/early") if run.point is not None)
    assert (result.index, result.files, result.keys, result.uncovered) == ("late", state.totals.files, keys, 0)
    assert len(state.runs_of("index/late")) == 1
    assert admitted(uri, "late") == admitted(uri, "early")
    table.drop_index("early")
    check(table, f"{kind} 'late', 1 run", 2_000)
    table.append(frame(spark, 2_000, 2_100))
    check(table, f"{kind} 'late', 2 runs", 2_100)
    with pytest.raises(InvalidError, match="'late' already"):
        table.create_index(nf.PointIndex("user", kind=kind, name="late"))


@pytest.mark.parametrize("kind", KINDS)
def test_large_runs_are_made_in_parts_by_tasks(spark: SparkSession, uri: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consolidate, "_PART_KEYS", 400)
    table = nf.Table.create(uri, SCHEMA, key="id", indexes=[], properties=SMALL)
    table.append(frame(spark, 0, 2_000))
    # Many small pages, so that there is something to cut.
    table.create_index(nf.PointIndex("user", kind=kind, expected_keys=2_000, false_reads=0.001))
    _, state = state_of(uri)
    parts = [run.point for run in state.runs_of("index/user") if run.point is not None]
    assert len(parts) > 1
    assert parts[0].first == 0
    assert [part.first for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert table.describe().point_indexes[0].runs == 1
    check(table, f"{kind} 'user'", 2_000)
    assert not table.verify().problems


@pytest.mark.usefixtures("several_tasks")
@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_an_append_are_made_once(spark: SparkSession, uri: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks make them; the commit takes them as they are."""
    monkeypatch.setattr(consolidate, "_PART_KEYS", 400)
    on_the_driver: list[object] = []
    original = consolidate.merge_part
    monkeypatch.setattr(consolidate, "merge_part", lambda *given: on_the_driver.append(given) or original(*given))
    indexes = [nf.PointIndex("id", kind=kind, expected_keys=2_000, false_reads=0.001)]
    table = nf.Table.create(uri, SCHEMA, key="id", indexes=indexes, properties=SMALL)
    table.append(frame(spark, 0, 2_000))
    _, state = state_of(uri)
    assert len(state.runs_of("index/id")) > 1
    assert on_the_driver == []
    check(table, "metadata", 2_000)
    assert table.find(id="000000").receipt.index.startswith(f"{kind} 'id'")
    assert not table.verify().problems


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_the_same_with_and_without_an_index(spark: SparkSession, uri: str, kind: str) -> None:
    plain = nf.Table.create(uri, SCHEMA, key="id", partition_by="host", indexes=[], properties=SMALL)
    plain.append(frame(spark, 0, 2_000))
    asked = frame(spark, 1_500, 2_500)
    before = sorted(map(str, plain.tag(asked).collect()))
    assert sum("chunkset=None" in text for text in before) == 500
    plain.create_index(nf.PointIndex("id", kind=kind))
    assert sorted(map(str, plain.tag(asked).collect())) == before


def test_adopted_files_have_the_index_they_are_adopted_with(spark: SparkSession, uri: str) -> None:
    store = open_store(StoreConfig(uri=uri))
    for number in range(3):
        sink = pa.BufferOutputStream()
        rows = [
            {"id": f"{n * 7919 % 100_003:06}", "user": n % 500, "host": f"h{n % 3}"} for n in range(number * 500, number * 500 + 500)
        ]
        pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=100)
        store.put(f"f{number}.parquet", sink.getvalue().to_pybytes())
    table = nf.Table.adopt(uri, key="id", indexes=[nf.PointIndex("user")])
    described = {index.name: index for index in table.describe().point_indexes}
    assert {name: (index.keys, index.runs, index.uncovered_files) for name, index in described.items()} == {
        "id": (1_500, 1, 0),
        "user": (1_500, 1, 0),
    }
    check(table, "postings 'user', 1 run", 1_500)


def test_rebuild_replaces_a_lost_run_and_drop_forgets_the_index(spark: SparkSession, uri: str) -> None:
    table = nf.Table.create(uri, SCHEMA, key="id", indexes=[nf.PointIndex("user")], properties=SMALL)
    table.append(frame(spark, 0, 1_000))
    table.append(frame(spark, 1_000, 2_000))
    store, state = state_of(uri)
    store.delete(found.path for found in store.list("_needlefish/index/user/"))
    check(nf.Table.open(uri), "metadata", 2_000)
    assert {problem.remedy for problem in table.verify().problems} == {"rebuild 'index/user'"}
    result = table.rebuild("index/user")
    assert (result.kind, result.files, result.runs_added, result.runs_removed, result.lost) == ("index/user", state.totals.files, 1, 2, ())
    check(table, "postings 'user', 1 run", 2_000)
    assert not table.verify().problems
    with pytest.raises(InvalidError, match="whole table"):
        table.rebuild("index/user", partitions={"host": "h1"})
    table.drop_index("user")
    check(table, "metadata", 2_000)
    with pytest.raises(InvalidError, match=r"name is 'user'.*the table has id"):
        table.drop_index("user")
    with pytest.raises(InvalidError, match="kind is 'index/user'"):
        table.rebuild("index/user")
