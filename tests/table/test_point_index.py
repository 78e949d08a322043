"""Point indexes through the table, without Spark: which questions they answer, what they spare, and that no row is missed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.api.describe import describe
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunRef, TableState
from needlefish.model.schema import schema_from_text
from needlefish.runtime import SYSTEM
from needlefish.services.adopt import commit_adoption, list_files
from needlefish.services.adopt.task import adopted
from needlefish.services.build_index import BuildPlan, build_index, index_files
from needlefish.store import RetriedStore, open_store
from needlefish.table.create import define_table
from needlefish.table.evolve import Changes, evolve
from needlefish.table.find import FindReceipt
from needlefish.table.point.consolidate import consolidated
from needlefish.table.point.declare import PointIndex, define_index
from needlefish.testing.tables import append_rows, build_table, find_table

SCHEMA = "id string, user int64, host string, price double, note string"
SMALL = {"granule_rows": 5, "chunkset_rows": 20}
KINDS = ("postings", "cuckoo")


def row(number: int) -> dict[str, Any]:
    return {
        "id": f"k{number * 7919 % 100_003:06}",
        "user": number % 40,
        "host": f"h{number % 3}",
        "price": number / 4,
        "note": None if number % 4 else f"n{number}",
    }


ROWS = [row(number) for number in range(300)]


def built(store: RetriedStore, *indexes: PointIndex, rows: Sequence[dict[str, Any]] = ROWS, **more: Any) -> TableState:
    """Two commits, many small files."""
    half = len(rows) // 2
    state = build_table(store, SCHEMA, "id", rows[:half], indexes=indexes or None, properties=SMALL, **more)
    return append_rows(store, state, rows[half:])


def local_job(store: RetriedStore) -> Callable[[BuildPlan, Sequence[ChunksetInfo]], Sequence[RunRef]]:
    """What Spark does, in this process."""
    return lambda plan, infos: consolidated(store, tuple(index_files(store, plan, infos, SYSTEM)))


def indexed(store: RetriedStore, state: TableState, index: PointIndex) -> TableState:
    declared = define_index(index, state.definition.schema, state.definition.properties)
    return build_index(store, state, declared, local_job(store))[0]


def find(store: RetriedStore, state: TableState, **values: Any) -> tuple[list[Any], FindReceipt]:
    found, receipt = find_table(store, state, **values)
    return sorted(found.to_pylist(), key=lambda row: row["id"]), receipt


def expected(**values: Any) -> list[Any]:
    return sorted((row for row in ROWS if all(row[name] == value for name, value in values.items())), key=lambda row: row["id"])


def check(store: RetriedStore, state: TableState, index: str, **values: Any) -> FindReceipt:
    """The rows are those that a look at every row gives, and the index named was asked."""
    rows, receipt = find(store, state, **values)
    assert rows == expected(**values)
    assert receipt.index.startswith(index), receipt.index
    assert not receipt.unreadable
    return receipt


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("granularity", ["row_group", "file"])
def test_a_find_asks_the_index_of_its_column(store: RetriedStore, kind: str, granularity: str) -> None:
    of_kind = {"kind": kind, "granularity": granularity}
    state = built(store, PointIndex("id", **of_kind), PointIndex("user", **of_kind), PointIndex("note", **of_kind))
    for number in (0, 1, 17, 149, 150, 299):
        receipt = check(store, state, f"{kind} 'id', 2 runs", id=ROWS[number]["id"])
        assert receipt.level("data").files_in <= 2
        assert receipt.granules_read + receipt.granules_pruned >= 1
        check(store, state, f"{kind} 'user'", user=ROWS[number]["user"])
    check(store, state, f"{kind} 'note'", note="n80")
    check(store, state, "metadata", host="h1")


def test_without_a_list_the_row_key_has_an_index_and_an_empty_list_has_none(store: RetriedStore) -> None:
    state = built(store)
    assert [index.name for index in state.definition.point_indexes] == ["id"]
    receipt = check(store, state, "postings 'id', 2 runs", id=ROWS[5]["id"])
    index, files, ranges, filters, data = receipt.levels
    assert (index.files_out, files.files_in, ranges.files_in, filters.files_in, data.files_in) == (1, 1, 0, 0, 1)
    assert (receipt.granules_read, receipt.rows_read) == (1, 5)


def test_an_index_of_other_columns_leaves_the_row_key_its_own(store: RetriedStore) -> None:
    state = built(store, PointIndex("user"))
    assert [index.name for index in state.definition.point_indexes] == ["id", "user"]
    assert build_table(store_beside(store), SCHEMA, "id", indexes=[]).definition.point_indexes == ()


def store_beside(store: RetriedStore) -> RetriedStore:
    return open_store(StoreConfig(uri=f"{store.uri}-beside"))


@pytest.mark.parametrize("kind", KINDS)
def test_several_columns_ask_the_index_over_most_of_them(store: RetriedStore, kind: str) -> None:
    state = built(store, PointIndex("id", kind=kind), PointIndex("user", kind=kind), PointIndex(["host", "user"], kind=kind))
    check(store, state, f"{kind} 'host-user'", user=7, host="h1")
    check(store, state, f"{kind} 'host-user'", user=7, host="h1", price=47 / 4)
    check(store, state, f"{kind} 'user'", user=7, price=47 / 4)
    check(store, state, f"{kind} 'user'", user=7, note="n87")
    check(store, state, "metadata", host="h1", price=47 / 4)
    assert expected(user=7, host="h1")


def test_a_composite_key_is_one_value(store: RetriedStore) -> None:
    rows = [{"a": f"a{number % 10}", "b": number // 10, "n": number} for number in range(100)]
    state = build_table(store, "a string, b int32, n int64", ["b", "a"], rows, indexes=None, properties=SMALL)
    for number in (0, 55, 99):
        found, receipt = find_table(store, state, [(number // 10, f"a{number % 10}")])
        assert found["n"].to_pylist() == [number]
        assert receipt.index == "postings 'b-a', 1 run"
    assert find_table(store, state, a="a3")[1].index.startswith("metadata")


@pytest.mark.parametrize("kind", KINDS)
def test_many_values_in_one_find(store: RetriedStore, kind: str) -> None:
    state = built(store, PointIndex("id", kind=kind))
    wanted = [row["id"] for row in ROWS[::3]] + [f"absent{number}" for number in range(200)]
    rows, receipt = find(store, state, id=wanted)
    assert rows == sorted(ROWS[::3], key=lambda row: row["id"])
    assert receipt.index.startswith(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True])
def test_zeros_have_two_encodings_and_nan_is_left_to_the_levels(store: RetriedStore, kind: str, many: bool) -> None:
    values = [0.0, -0.0, 1.5, float("nan"), None, float("inf"), *(float(number) for number in range(10, 40))]
    rows = [{"id": f"{number:03}", "x": value} for number, value in enumerate(values)]
    state = build_table(store, "id string, x double", "id", rows, indexes=[PointIndex("x", kind=kind)], properties=SMALL)
    others = [100.5, 101.5, 102.5, 103.5, 104.5, 105.5] if many else []
    for asked, ids in ((0.0, ["000", "001"]), (-0.0, ["000", "001"]), (1.5, ["002"]), (float("inf"), ["005"]), (12.0, ["008"])):
        found, receipt = find(store, state, x=[asked, *others])
        assert [row["id"] for row in found] == ids
        assert receipt.index.startswith(f"{kind} 'x'")
    found, receipt = find(store, state, x=[float("nan"), *others])
    assert [row["id"] for row in found] == ["003"]
    assert receipt.index.startswith("metadata"), "NaN has more encodings than can be asked for"


@pytest.mark.parametrize("kind", KINDS)
def test_widened_columns_are_found_in_old_and_new_files(store: RetriedStore, kind: str) -> None:
    rows = [{"id": f"{number:03}", "n": number, "x": number / 2} for number in range(40)]
    indexes = [PointIndex("n", kind=kind), PointIndex(["x", "n"], kind=kind)]
    state = build_table(store, "id string, n int32, x float", "id", rows, indexes=indexes, properties=SMALL)
    state = evolve(store, state, Changes(widen={"n": "int64", "x": "double"}))
    state = append_rows(store, state, [{"id": f"{number:03}", "n": number % 60 + 2**40 * (number >= 60), "x": 0.1} for number in range(40, 80)])
    for n, ids in ((7, ["007"]), (45, ["045"]), (2**40 + 3, ["063"]), (2**50, [])):
        found, receipt = find(store, state, n=n)
        assert ([row["id"] for row in found], receipt.index) == (ids, f"{kind} 'n', 2 runs")
    many, receipt = find(store, state, n=[7, 45, 2**40 + 3, 2**50, 8, 9, 10])
    assert [row["id"] for row in many] == ["007", "008", "009", "010", "045", "063"]
    assert [row["id"] for row in find(store, state, n=7, x=3.5)[0]] == ["007"]
    assert [row["id"] for row in find(store, state, n=45, x=0.1)[0]] == ["045"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_younger_than_files_is_indexed_where_it_is(store: RetriedStore, kind: str) -> None:
    state = evolve(store, built(store), Changes(add={"extra": "int32"}))
    more = [row(number) | {"extra": number} for number in range(300, 340)]
    state = indexed(store, append_rows(store, state, more), PointIndex("extra", kind=kind))
    found, receipt = find(store, state, extra=317)
    assert [found_row["id"] for found_row in found] == [row(317)["id"]]
    assert (receipt.index, receipt.level("data").files_in) == (f"{kind} 'extra', 1 run", 1)
    found, receipt = find(store, state, extra=5)
    assert (found, receipt.level("index").unknown, receipt.level("data").requests) == ([], 0, 0)
    state = append_rows(store, state, [row(number) | {"extra": number} for number in range(340, 350)])
    assert len(find(store, state, extra=345)[0]) == 1


def test_nulls_are_in_no_index_and_are_refused(store: RetriedStore) -> None:
    state = built(store, PointIndex("note"), PointIndex(["host", "note"]))
    notes = {run.point.keys for run in state.runs_of("index/note") if run.point is not None}
    assert notes == {38, 37}, "a quarter of 150 rows, twice"
    check(store, state, "postings 'host-note'", host="h0", note="n180")
    with pytest.raises(InvalidError, match=r"note=None.*is null"):
        find(store, state, note=None)


def test_renamed_columns_keep_their_index_and_indexed_ones_are_not_dropped(store: RetriedStore) -> None:
    state = built(store, PointIndex("user"))
    with pytest.raises(InvalidError, match=r"drop names column 'user'.*point index, which can be dropped"):
        evolve(store, state, Changes(drop=["user"]))
    state = evolve(store, state, Changes(rename={"user": "account"}))
    found, receipt = find(store, state, account=7)
    assert [row["id"] for row in found] == [row["id"] for row in expected(user=7)]
    assert receipt.index.startswith("postings 'user'")
    assert [index.columns for index in describe(store.uri, state).point_indexes] == [("id",), ("account",)]


@pytest.mark.parametrize("kind", KINDS)
def test_pinned_partitions_are_the_only_ones_looked_at(store: RetriedStore, kind: str) -> None:
    state = built(store, PointIndex("user", kind=kind), partition_by="host")
    receipt = check(store, state, f"{kind} 'user'", user=7)
    assert receipt.partitions is None
    pinned = check(store, state, f"{kind} 'user'", user=7, host="h1")
    assert pinned.partitions == 1
    assert pinned.level("data").files_in < receipt.level("data").files_in
    wrong, receipt = find(store, state, id=ROWS[1]["id"], host="h2")
    assert (wrong, receipt.level("data").requests) == ([], 0)


def test_adopted_files_are_indexed(store: RetriedStore) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(ROWS), sink, row_group_size=50)
    store.put("part-0.parquet", sink.getvalue().to_pybytes())
    definition = define_table(schema_from_text(SCHEMA), "id", (), {}, indexes=[])
    entries = [adopted(store, definition, file, SYSTEM) for file in list_files(store)]
    state = commit_adoption(store, definition, [entry.info for entry in entries if entry is not None], ())
    state = indexed(store, state, PointIndex("note"))
    receipt = check(store, state, "postings 'note'", note="n80")
    assert (receipt.granules_read, receipt.granules_pruned) == (1, 5)


@pytest.fixture(scope="module")
def thousand() -> tuple[RetriedStore, TableState]:
    """A thousand files of 24 rows, with indexes of both kinds."""
    store = open_store(StoreConfig(uri="memory://point-index-thousand"))
    numbers = range(24_000)
    rows = pa.table({
        "id": [f"{n * 2_654_435_761 % 2**32:08x}" for n in numbers],
        "part": [n % 1_000 for n in numbers],
        "same": ["x"] * len(numbers),
        "skewed": [0 if n % 10 else n for n in numbers],
    })  # fmt: skip
    indexes = [
        PointIndex("id"),
        PointIndex("id", kind="cuckoo", name="cuckoo", bits=32),
        PointIndex("same"),
        PointIndex("skewed"),
        PointIndex("skewed", kind="cuckoo", name="skewed-cuckoo"),
    ]
    schema, properties = "id string, part int64, same string, skewed int64", {"granule_rows": 8}
    state = build_table(store, schema, "id", rows, partition_by=["part"], indexes=indexes, properties=properties)
    assert state.totals.files == 1_000
    return store, state


def only(state: TableState, name: str) -> TableState:
    """The version as if it had this index alone."""
    kept = tuple(index for index in state.definition.point_indexes if index.name == name)
    return replace(state, definition=replace(state.definition, point_indexes=kept))


@pytest.mark.parametrize("name", ["id", "cuckoo"])
def test_absent_values_read_no_data_of_a_thousand_files(thousand: tuple[RetriedStore, TableState], name: str) -> None:
    store, state = thousand[0], only(thousand[1], name)
    data_requests = 0
    for number in range(100):
        rows, receipt = find_table(store, state, id=f"absent{number}")
        assert rows.num_rows == 0
        assert f"{name!r}" in receipt.index
        assert receipt.level("filters").requests == receipt.level("ranges").requests == 0
        data_requests += receipt.level("data").requests
    # Declared are 0.1 granules of 134 million keys; these are 24,000.
    assert data_requests == 0


@pytest.mark.parametrize("name", ["id", "cuckoo"])
def test_a_present_value_reads_one_granule(thousand: tuple[RetriedStore, TableState], name: str) -> None:
    store, state = thousand[0], only(thousand[1], name)
    for number in (0, 999, 12_345, 23_999):
        rows, receipt = find_table(store, state, id=f"{number * 2_654_435_761 % 2**32:08x}")
        assert rows["part"].to_pylist() == [number % 1_000]
        assert (receipt.level("data").files_in, receipt.granules_read, receipt.rows_read, receipt.false_granules) == (1, 1, 8, 0)


@pytest.mark.parametrize("name", ["skewed", "skewed-cuckoo"])
def test_the_rare_values_of_a_skewed_column_read_one_granule(thousand: tuple[RetriedStore, TableState], name: str) -> None:
    store, state = thousand[0], only(thousand[1], name)
    rows, receipt = find_table(store, state, skewed=230)
    assert (rows.num_rows, receipt.granules_read) == (1, 1)
    rows, receipt = find_table(store, state, skewed=-1)
    assert (rows.num_rows, receipt.level("data").requests) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_duplicated_skewed_and_constant_columns_are_found_whole(store: RetriedStore, kind: str) -> None:
    rows = [row(number) | {"user": number if number % 10 == 0 else -1, "host": "x", "price": number // 50} for number in range(300)]
    state = built(store, *(PointIndex(column, kind=kind) for column in ("user", "host", "price")), rows=rows)
    for column, value, many in (("user", -1, 270), ("user", 50, 1), ("host", "x", 300), ("host", "y", 0), ("price", 3.0, 50)):
        found, receipt = find_table(store, state, **{column: value})
        assert (found.num_rows, receipt.index) == (many, f"{kind} {column!r}, 2 runs")


def test_values_in_every_granule_cost_the_index_little(thousand: tuple[RetriedStore, TableState]) -> None:
    _, state = thousand
    (same,) = state.runs_of("index/same")
    (key,) = state.runs_of("index/id")
    assert same.point is not None
    assert same.point.keys == same.point.granules == 3_000
    table_bytes = 32 * 3_000
    assert same.bytes - table_bytes < 8_192, "one list of ordinals"
    assert same.bytes < key.bytes
