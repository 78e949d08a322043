"""Finding rows by value: what is found, level by level what is left alone, and what nobody may rule out."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.entries import ColumnStats
from needlefish.store import RetriedStore, open_store
from needlefish.table.evolve import Changes, evolve
from needlefish.table.find import FindReceipt, wanted_keys, wanted_values
from needlefish.table.find.ranges import extent_of, stretch
from needlefish.table.point.declare import PointIndex
from needlefish.testing.tables import append_rows, build_table, find_table

_numbers = count()

Row = dict[str, Any]


def files_left(receipt: FindReceipt) -> list[int]:
    return [level.files_out for level in receipt.levels if level.name != "index"]


def test_the_interval_example() -> None:
    """f1 (no range), f2[000,000], f3[001,003], f4[002,007], f5[009,010]."""
    ranges = {"f1": None, "f2": ("000", "000"), "f3": ("001", "003"), "f4": ("002", "007"), "f5": ("009", "010")}
    values = ["002", "003", "004", "005"]
    encoded = [value.encode() + b"\0\0" for value in values]
    found: dict[str, list[str]] = {value: [] for value in values}
    for file, bounds in ranges.items():
        stats = None if bounds is None else _stats(*(bound.encode() + b"\0\0" for bound in bounds))
        first, end = stretch(encoded, extent_of(stats))
        for value in values[first:end]:
            found[value].append(file)
    assert found == {"002": ["f1", "f3", "f4"], "003": ["f1", "f3", "f4"], "004": ["f1", "f4"], "005": ["f1", "f4"]}


def _stats(lowest: bytes | None, highest: bytes | None, *, nulls: int = 0, has_nan: bool = False) -> ColumnStats:
    return ColumnStats(
        field_id=1, min=lowest, max=highest, value_count=5, null_count=nulls, has_nan=has_nan, total_size=1, total_uncompressed_size=1
    )


def test_the_interval_example_in_a_table(store: RetriedStore) -> None:
    """The same as files: f1 is older than the column, so that no statistics speak of it; it stays a candidate to the last level."""
    state = build_table(store, "id int32", "id", [{"id": 1}])
    state = evolve(store, state, Changes(add={"v": "string"}))
    for number, values in enumerate((["000", "000"], ["001", "003"], ["002", "007"], ["009", "010"]), 2):
        rows = [{"id": 10 * number + place, "v": value} for place, value in enumerate(values)]
        state = append_rows(store, state, rows)
    for value, files in {"002": 3, "003": 3, "004": 2, "005": 2, "000": 2, "0095": 2, "011": 1}.items():
        _, receipt = find_table(store, state, v=value)
        ranges = receipt.level("ranges")
        assert (ranges.files_in, ranges.files_out, ranges.unknown) == (5, files, 1), value


@given(
    values=st.lists(st.integers(0, 60), min_size=1, max_size=30, unique=True),
    bounds=st.lists(st.none() | st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=10),
)
def test_a_stretch_is_what_the_bounds_cover(values: list[int], bounds: list[tuple[int, int] | None]) -> None:
    ordered = sorted(values)
    encoded = [bytes([value, 0, 0]) for value in ordered]
    for bound in bounds:
        stats = None if bound is None else _stats(bytes([min(bound), 0, 0]), bytes([max(bound), 0, 0]))
        first, end = stretch(encoded, extent_of(stats))
        assert ordered[first:end] == [v for v in ordered if bound is None or min(bound) <= v <= max(bound)]


def test_rounded_bounds_keep_what_begins_with_them() -> None:
    encoded = [b"aa", b"ab", b"ac", b"b"]
    assert stretch(encoded, extent_of(_stats(b"a", b"a"))) == (0, 3)
    assert stretch(encoded, extent_of(_stats(b"ab", b"ac"))) == (1, 3)


def test_all_null_holds_nothing_and_no_bounds_hold_anything() -> None:
    encoded = [b"a", b"b"]
    assert stretch(encoded, extent_of(_stats(None, None, nulls=5))) == (2, 2)
    assert stretch(encoded, extent_of(_stats(None, None))) == (0, 2)


# Every kind of value as key, as declared column and as plain column.

POOLS: dict[str, list[Any]] = {
    "boolean": [False, True],
    "int8": [-128, -1, 0, 5, 127],
    "int16": [-(2**15), 0, 2**15 - 1],
    "int32": [-(2**31), 0, 9, 10, 2**31 - 1],
    "int64": [-(2**63), -10, 9, 2**63 - 1],
    "uint8": [0, 9, 10, 255],
    "uint16": [0, 2**16 - 1],
    "uint32": [0, 2**32 - 1],
    "uint64": [0, 9, 10, 2**63, 2**64 - 1],
    "float": [-math.inf, -1.5, 0.0, 0.25, math.inf, math.nan],
    "double": [-math.inf, -1.5, 0.0, 0.1, 1e300, math.nan],
    "decimal(5,2)": [Decimal("-999.99"), Decimal("0.00"), Decimal("9.00"), Decimal("10.00")],
    "decimal(38,10)": [Decimal("-1234567890123456789012345678.0123456789"), Decimal("0E-10"), Decimal("1.0000000001")],
    "string": ["", "10", "9", "a", "a\0", "é", "\U0001f41f", "z" * 300],
    "binary": [b"", b"\0", b"\0\xff", b"\xff" * 100, b"a"],
    "date": [date(1, 1, 1), date(1969, 12, 31), date(2026, 11, 1), date(9999, 12, 31)],
    "timestamp": [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1969, 1, 1), datetime(2026, 11, 1)],  # noqa: DTZ001
}


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))


ROLES = ["key", "first of a key", "bloom", "plain", "partition"]
NOT_OFFERED = {("boolean", "bloom"), ("float", "partition"), ("double", "partition")}


@pytest.mark.parametrize(("kind", "role"), [(kind, role) for kind in POOLS for role in ROLES if (kind, role) not in NOT_OFFERED])
def test_every_type_in_every_role(store: RetriedStore, kind: str, role: str) -> None:
    pool = POOLS[kind]
    key = {"key": "v", "first of a key": ["v", "id"]}.get(role, "id")
    rows = [{"id": number, "v": value} for number, value in enumerate(pool)]
    rows += [{"id": 100, "v": None}] if role in ("bloom", "plain", "partition") else []
    state = build_table(
        store, f"id int32, v {kind}", key, rows[::2],
        bloom_columns=["v"] if role == "bloom" else [], partition_by=["v"] if role == "partition" else [],
        properties={"granule_rows": 1, "chunkset_rows": 2},
    )  # fmt: skip
    state = append_rows(store, state, rows[1::2])
    for number, value in enumerate(pool):
        found, receipt = find_table(store, state, v=value)
        assert [row["id"] for row in found.to_pylist()] == [number], value
        assert receipt.rows_returned == 1
    found, _ = find_table(store, state, v=pool)
    assert sorted(row["id"] for row in found.to_pylist()) == list(range(len(pool)))


def test_integers_compare_as_numbers(store: RetriedStore) -> None:
    """As text 9 lies behind 10, and -5 behind -10."""
    state = build_table(store, "id int32, v int32", "id", [{"id": 1, "v": 9}, {"id": 2, "v": 10}, {"id": 3, "v": -5}, {"id": 4, "v": -10}])
    for value, number in {9: 1, 10: 2, -5: 3, -10: 4}.items():
        assert find_table(store, state, v=value)[0]["id"].to_pylist() == [number]
    _, receipt = find_table(store, state, v=11)
    assert files_left(receipt) == [1, 0, 0, 0]


@pytest.mark.parametrize("role", ["key", "bloom", "plain"])
@pytest.mark.parametrize("kind", ["float", "double"])
def test_zeros_are_one_value_and_nan_equals_itself(store: RetriedStore, kind: str, role: str) -> None:
    key = ["v", "id"] if role == "key" else "id"
    values = [-0.0, 0.0, math.nan, 1.0, math.nan, -0.0]
    rows = [{"id": number, "v": value} for number, value in enumerate(values)]
    state = build_table(
        store, f"id int32, v {kind}", key, rows, bloom_columns=["v"] if role == "bloom" else [], properties={"granule_rows": 1}
    )
    for wanted in (0.0, -0.0, math.nan, 1.0, 2.0):
        found = find_table(store, state, v=wanted)[0]["id"].to_pylist()
        assert sorted(found) == [number for number, value in enumerate(values) if _equal(value, wanted)], wanted


def test_nan_alone_and_nan_with_nulls(store: RetriedStore) -> None:
    state = build_table(store, "id int32, v double", "id", [{"id": 1, "v": math.nan}, {"id": 2, "v": None}])
    assert find_table(store, state, v=math.nan)[0]["id"].to_pylist() == [1]
    assert find_table(store, state, v=0.0)[0].num_rows == 0


def test_whole_keys_one_by_one_and_together(store: RetriedStore) -> None:
    rows = [{"a": a, "b": b, "n": 100 * ord(a) + b} for a in "xyz" for b in range(20)]
    state = build_table(store, "a string, b int64, n int64", ["a", "b"], rows, properties={"granule_rows": 4, "chunkset_rows": 8})
    assert find_table(store, state, a="y", b=7)[0].to_pylist() == [{"a": "y", "b": 7, "n": 12107}]
    assert find_table(store, state, b=7, a="y")[0].to_pylist() == [{"a": "y", "b": 7, "n": 12107}], "columns in any order"
    found, receipt = find_table(store, state, keys=[("z", 19), ("x", 0), ("x", 0), ("y", 99), ("w", 1)])
    assert sorted((row["a"], row["b"]) for row in found.to_pylist()) == [("x", 0), ("z", 19)]
    assert receipt.values == 4, "each value counts once"
    found, _ = find_table(store, state, b=7)
    assert sorted(row["a"] for row in found.to_pylist()) == ["x", "y", "z"], "one column of a key"
    found, _ = find_table(store, state, n=12107, a="y")
    assert found.num_rows == 1, "several columns that are no key must all hold"
    assert find_table(store, state, n=12107, a="x")[0].num_rows == 0


def test_pairs_are_compared_as_pairs(store: RetriedStore) -> None:
    """Both parts of ("a", 2) are wanted, but not together."""
    rows = [{"a": a, "b": b} for a in "ab" for b in (1, 2)]
    state = build_table(store, "a string, b int32", ["a", "b"], rows)
    found = find_table(store, state, keys=[("a", 1), ("b", 2)])[0].to_pylist()
    assert sorted((row["a"], row["b"]) for row in found) == [("a", 1), ("b", 2)]


def test_a_hundred_thousand_values_in_one_pass(store: RetriedStore) -> None:
    rows = [{"id": f"{number * 7_919 % 50_021:06}", "n": number} for number in range(4_000)]
    state = build_table(store, "id string, n int64", "id", rows, properties={"granule_rows": 100, "chunkset_rows": 400})
    wanted = [f"{number:06}" for number in range(100_000)]
    found, receipt = find_table(store, state, id=wanted)
    assert found.num_rows == 4_000
    assert receipt.values == 100_000
    assert receipt.level("data").files_in == 10
    assert receipt.rows_read == 4_000
    assert receipt.granules_read == 40, "each granule once"
    with pytest.raises(InvalidError, match="100001 values; give at most 100000"):
        wanted_values(state.definition, {"id": [*wanted, "x"]})


def test_a_partition_is_pinned_by_its_source(store: RetriedStore) -> None:
    rows = [{"id": f"k{number}", "host": f"h{number % 10}", "n": number} for number in range(100)]
    state = build_table(store, "id string, host string, n int64", ["host", "id"], rows, partition_by=["bucket(host, 7)"])
    found, receipt = find_table(store, state, host="h3", id="k13")
    assert [row["n"] for row in found.to_pylist()] == [13]
    assert (receipt.partitions, receipt.level("files").files_in) == (1, 1)
    found, receipt = find_table(store, state, host="h3")
    assert found.num_rows == 10
    assert receipt.partitions == 1
    _, receipt = find_table(store, state, id="k13")
    assert (receipt.partitions, receipt.level("files").files_in) == (None, state.totals.files)


def test_values_of_one_partition_are_not_looked_for_in_another(store: RetriedStore) -> None:
    rows = [{"id": number, "day": date(2026, 11, 1 + number % 3)} for number in range(30)]
    state = build_table(store, "id int32, day date", ["id", "day"], rows, partition_by=["day"])
    found, receipt = find_table(store, state, keys=[(3, date(2026, 11, 1)), (4, date(2026, 11, 2)), (5, date(2026, 11, 1))])
    assert sorted(found["id"].to_pylist()) == [3, 4]
    assert receipt.partitions == 2
    assert receipt.level("files").files_in == 2


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "find needs something to look for"),
    "null": ({"id": None}, r"find\(id=None\): nulls are in no index; use scan"),
    "null in a list": ({"id": ["a", None]}, "nulls are in no index"),
    "unknown column": ({"x": 1}, "find names column 'x', which the table does not have; its columns are id, n, tags"),
    "wrong type": ({"n": "seven"}, r"find\(n=…\) is 'seven', which is no value of type int32"),
    "too large": ({"n": 2**31}, "which is no value of type int32"),
    "not whole": ({"n": 1.5}, "it is not whole"),
    "nested": ({"tags": ["a"]}, "nested values cannot be looked for"),
    "a list beside others": ({"id": ["a", "b"], "n": 1}, "a list for 'id' beside other columns"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_looked_for_is_refused(store: RetriedStore, name: str) -> None:
    state = build_table(store, "id string, n int32, tags list<string>", "id")
    values, words = REFUSED[name]
    with pytest.raises(InvalidError, match=words):
        wanted_values(state.definition, values)


def test_keys_have_a_value_for_each_column(store: RetriedStore) -> None:
    state = build_table(store, "a string, b int32", ["a", "b"])
    with pytest.raises(InvalidError, match=r"the key \('x',\); the key is a, b: give a value for each"):
        wanted_keys(state.definition, ["x"])


def test_an_empty_list_and_an_empty_table_find_nothing(store: RetriedStore) -> None:
    state = build_table(store, "id string, n int32", "id", [{"id": "a", "n": 1}])
    assert find_table(store, state, id=[])[0].num_rows == 0
    empty = build_table(open_store(StoreConfig(uri=f"memory://find-{next(_numbers)}")), "id string", "id")
    found, receipt = find_table(store, empty, id="a")
    assert (found.num_rows, receipt.requests) == (0, 0)
    assert found.schema.names == ["id"]


_CELLS: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-5, 5),
    "u": st.integers(0, 5),
    "s": st.sampled_from(["", "a", "b", "ab", "é"]),
    "f": st.sampled_from([-0.0, 0.0, 1.5, math.nan, -math.inf]),
    "d": st.sampled_from([Decimal("-0.01"), Decimal("0.00"), Decimal("1.25")]),
    "t": st.sampled_from([datetime(1969, 12, 31, tzinfo=UTC), datetime(2026, 11, 1, 13, tzinfo=UTC)]),
}
_INDEXES = st.builds(
    lambda columns, kind, granularity: PointIndex(
        columns, kind=kind, granularity=granularity, expected_keys=50, false_reads=5, name="-".join(columns)
    ),
    st.lists(st.sampled_from(list(_CELLS)), min_size=1, max_size=2, unique=True),
    st.sampled_from(["postings", "cuckoo"]),
    st.sampled_from(["row_group", "file"]),
)
_SCHEMA = "seq int32, i int8, u uint64, s string, f double, d decimal(5,2), t timestamp"


@given(
    rows=st.lists(st.fixed_dictionaries({name: st.none() | cell for name, cell in _CELLS.items()}), min_size=1, max_size=20),
    key=st.sampled_from([["seq"], ["s", "seq"], ["f", "seq"], ["i", "d", "seq"]]),
    partition_by=st.sampled_from([[], ["i"], ["bucket(s, 2)"], ["day(t)"], ["i", "bucket(u, 2)"]]),
    bloom=st.sets(st.sampled_from(list(_CELLS)), max_size=3),
    indexes=st.lists(_INDEXES, max_size=3, unique_by=lambda index: index.name),
    data=st.data(),
)
def test_a_find_is_a_filter(
    rows: list[Row], key: list[str], partition_by: list[str], bloom: set[str], indexes: list[PointIndex], data: st.DataObject
) -> None:
    rows = [
        {name: value if value is not None or name not in key else data.draw(_CELLS[name]) for name, value in row.items()} | {"seq": number}
        for number, row in enumerate(rows)
    ]
    store = open_store(StoreConfig(uri=f"memory://find-{next(_numbers)}"))
    state = build_table(
        store,
        _SCHEMA,
        key,
        rows[::2],
        partition_by=partition_by,
        bloom_columns=sorted(bloom),
        indexes=indexes,
        properties={"granule_rows": 2, "chunkset_rows": 5},
    )
    state = append_rows(store, state, rows[1::2])
    for name, cell in _CELLS.items():
        wanted = data.draw(st.lists(cell, min_size=1, max_size=3))
        found, receipt = find_table(store, state, **{name: wanted})
        assert sorted(found["seq"].to_pylist()) == [row["seq"] for row in rows if any(_equal(row[name], value) for value in wanted)]
        assert not receipt.unreadable
        _check_levels(receipt)
    one, other = data.draw(st.permutations(list(_CELLS)))[:2]
    pair = {one: data.draw(_CELLS[one]), other: data.draw(_CELLS[other])}
    found, receipt = find_table(store, state, **pair)
    assert sorted(found["seq"].to_pylist()) == [row["seq"] for row in rows if all(_equal(row[name], pair[name]) for name in pair)]
    _check_levels(receipt)
    chosen = data.draw(st.lists(st.sampled_from(rows), max_size=4))
    absent = [tuple(data.draw(_CELLS[name]) if name != "seq" else 99 for name in key)]
    found, receipt = find_table(store, state, keys=[tuple(row[name] for name in key) for row in chosen] + absent)
    assert sorted(found["seq"].to_pylist()) == sorted({row["seq"] for row in chosen})
    _check_levels(receipt)


def _check_levels(receipt: FindReceipt) -> None:
    """What one level lets pass goes into the next."""
    data = receipt.level("data")
    if receipt.index.startswith("metadata"):
        for level, following in pairwise(receipt.levels[1:]):
            assert level.files_out == following.files_in
            assert level.files_out <= level.files_in
    else:
        index, files = receipt.level("index"), receipt.level("files")
        assert data.files_in <= files.files_out == files.files_in == index.files_out <= index.files_in
    assert receipt.false_files == data.files_in - data.files_out
