"""Damage to every kind of run: answers stay right, `verify` names the object, `rebuild` repairs it."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.format.run import run_path
from needlefish.model.log import RunRef
from needlefish.store import RetriedStore, open_store
from needlefish.testing.damage import RUN_DAMAGES
from needlefish.testing.tables import append_rows, build_table
from needlefish.timeline import read_newest

pytestmark = pytest.mark.usefixtures("spark")

KINDS = ("files", "column_stats", "bloom_filters")


def row(number: int) -> dict[str, Any]:
    return {"id": f"k{number:04}", "host": "abc"[number % 3], "n": number * 7 % 100, "note": None if number % 2 else "x" * 100}


ROWS = [row(number) for number in range(600)]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two commits of three partitions; copied for each test."""
    folder = tmp_path_factory.mktemp("pristine") / "table"
    store = open_store(StoreConfig(uri=str(folder)))
    options = {"partition_by": "host", "bloom_columns": "n", "properties": {"granule_rows": 20, "chunkset_rows": 100}}
    append_rows(store, build_table(store, "id string, host string, n int64, note string", "id", ROWS[:400], **options), ROWS[400:])
    return folder


@pytest.fixture
def store(pristine: Path, uri: str) -> RetriedStore:
    shutil.copytree(pristine, uri)
    return open_store(StoreConfig(uri=uri))


def newest_run(store: RetriedStore, kind: Any) -> RunRef:
    return read_newest(store).runs_of(kind)[0]


def check_answers(uri: str) -> None:
    """Finds by key, by a column with a filter, by one with statistics alone and by absent values, and a whole scan."""
    table = nf.Table.open(uri)
    assert sorted(table.scan().to_pylist(), key=lambda row: row["id"]) == ROWS
    assert table.find(id=["k0450", "k0003", "nobody"]).to_pylist() in ([ROWS[3], ROWS[450]], [ROWS[450], ROWS[3]])
    assert sorted(found["id"] for found in table.find(n=[13, 14]).to_pylist()) == [row["id"] for row in ROWS if row["n"] in (13, 14)]
    assert len(table.find(host="b")) == 200
    assert table.find(note="y").to_pylist() == []


@pytest.mark.parametrize("damage", RUN_DAMAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_survived_named_and_repaired(store: RetriedStore, uri: str, kind: Any, damage: str) -> None:
    run = newest_run(store, kind)
    RUN_DAMAGES[damage](store, run)
    path = run_path(kind, run.id)
    if kind == "files" and damage != "footer flipped":
        # The list of what exists cannot be guessed around: it says so, and what is wrong.
        for ask in (lambda table: table.scan().to_pylist(), lambda table: table.find(id="k0450"), lambda table: table.find(n=13)):
            with pytest.raises(nf.CorruptError, match=path):
                ask(nf.Table.open(uri))
    else:
        check_answers(uri)
    table = nf.Table.open(uri)
    assert {problem.object for problem in table.verify().problems} == {path}

    result = table.rebuild(kind)
    assert (result.lost, result.files, result.version, result.runs_removed) == ((), table.describe().files, table.version, 2)
    check_answers(uri)
    found = nf.Table.open(uri).verify()
    assert (found.problems, found.notes) == ((), ())
    assert [entry.action for entry in table.history(limit=1)] == ["rebuild"]


def test_slower_but_right_is_what_the_receipt_says(store: RetriedStore, uri: str) -> None:
    """Without the newest filters and statistics the files they covered are read; what is still covered is not."""
    before = nf.Table.open(uri).find(n=1000).receipt
    assert before.level("data").files_in == 0
    for kind in ("column_stats", "bloom_filters"):
        run = newest_run(store, kind)
        RUN_DAMAGES["deleted"](store, run)
    found = nf.Table.open(uri).find(n=1000)
    assert found.to_pylist() == []
    assert 0 < found.receipt.level("data").files_in < found.receipt.level("files").files_out
    assert len(found.receipt.unreadable) == 2


def test_everything_lost_but_one_kind_of_run(store: RetriedStore, uri: str) -> None:
    for kind in ("files", "column_stats"):
        for run in read_newest(store).runs_of(kind):
            RUN_DAMAGES["deleted"](store, run)
    table = nf.Table.open(uri)
    with pytest.raises(nf.CorruptError, match="_needlefish/metadata/files/"):
        table.rebuild("column_stats")
    assert [table.rebuild(kind).lost for kind in ("files", "column_stats")] == [(), ()]
    check_answers(uri)
    assert nf.Table.open(uri).verify().problems == ()


def test_one_partition_alone(store: RetriedStore, uri: str) -> None:
    for run in read_newest(store).runs_of("bloom_filters"):
        RUN_DAMAGES["deleted"](store, run)
    table = nf.Table.open(uri)
    result = table.rebuild("bloom_filters", partitions={"host": "b"})
    assert (result.runs_removed, result.files) == (0, len({note.object for note in table.verify().notes}) // 2)
    assert {note.object.split("/")[1] for note in table.verify().notes} == {"host=a", "host=c"}
    check_answers(uri)


def test_wrong_calls_are_refused_before_spark_is_asked(store: RetriedStore, uri: str) -> None:
    table = nf.Table.open(uri)
    with pytest.raises(nf.InvalidError, match="kind is 'blooms'"):
        table.rebuild("blooms")
    with pytest.raises(nf.InvalidError, match="partitions names 'day'"):
        table.rebuild("bloom_filters", partitions={"day": 1})
    with pytest.raises(nf.InvalidError, match="memory:// table lives in this process"):
        nf.Table.create("memory://rebuild", "id string", key="id").rebuild("files")


def test_a_rebuild_starts_from_the_newest_version(spark: SparkSession, store: RetriedStore, uri: str) -> None:
    old = nf.Table.open(uri)
    append_rows(store, read_newest(store), [row(number) for number in range(600, 700)])
    newest = read_newest(store).version
    assert old.rebuild("column_stats").version == old.version > newest
    assert old.to_spark(spark).count() == 700
    assert nf.Table.open(uri).verify().problems == ()
