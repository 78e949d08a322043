"""Upserts that keep the columns which the rows lack, without Spark: what is kept, what is refused, what is read, and forks."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, InvalidError
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, Store, open_store
from needlefish.table.evolve import Changes, evolve
from needlefish.table.history import read_history
from needlefish.table.point.declare import PointIndex
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.upsert import compare, partial, partial_read, partial_stage
from needlefish.table.upsert.key_file import WORK_PREFIX
from needlefish.table.verify import verify_table
from needlefish.testing import changes
from needlefish.testing.changes import LocalPartialJobs, delete_table, upsert_table
from needlefish.testing.tables import build_table, find_table, scan_table
from needlefish.timeline import read_newest

SCHEMA = "id int64, a string, n int64, b string"
SMALL = {"chunkset_rows": 20, "granule_rows": 5}


def row(number: int, **values: Any) -> dict[str, Any]:
    return {"id": number, "a": f"a{number}", "n": number, "b": f"b{number}"} | values


def build(store: Store, count: int = 60, **options: Any) -> TableState:
    return build_table(store, SCHEMA, "id", [row(number) for number in range(count)], properties=SMALL, **options)


def shown(store: RetriedStore, state: TableState) -> dict[int, dict[str, Any]]:
    """All rows by key, sound and each key once."""
    found = scan_table(store, state)[0].to_pylist()
    assert len({one["id"] for one in found}) == len(found) == state.totals.visible_rows
    assert not verify_table(Snapshot(store=store, state=state)).problems
    return {one["id"]: one for one in found}


def update(store: RetriedStore, state: TableState, rows: Iterable[dict[str, Any]], **options: Any) -> tuple[TableState, Any]:
    return upsert_table(store, state, list(rows), columns="present", **options)


def _actions(store: RetriedStore, state: TableState) -> list[str]:
    return [entry.action for entry in read_history(store, state)]


def test_columns_that_the_rows_lack_are_kept(store: RetriedStore) -> None:
    before = build(store)
    state, result = update(store, before, [{"id": number, "n": -number} for number in (3, 17, 44, 59)])
    assert (result.inserted, result.replaced, result.late, result.deleted, result.duplicates) == (0, 4, 0, 0, 0)
    assert (result.version, result.healed, list(result.stages)) == (state.version, 0, ["write", "complete", "compare", "commit"])
    assert [entry.action for entry in read_history(store, state, limit=2, steps=True)] == ["upsert", "claim"]
    assert shown(store, state) == {number: row(number) for number in range(60)} | {n: row(n, n=-n) for n in (3, 17, 44, 59)}
    assert shown(store, before) == {number: row(number) for number in range(60)}
    assert find_table(store, state, [17])[0].to_pylist() == [row(17, n=-17)]
    assert not list(store.list(WORK_PREFIX))
    # What was kept is kept again, from the rows of the upsert.
    state, _ = update(store, state, [{"id": 17, "a": "new"}])
    assert shown(store, state)[17] == row(17, n=-17, a="new")


def test_a_null_that_is_present_is_a_value(store: RetriedStore) -> None:
    state, _ = update(store, build(store), [{"id": 3, "n": None}])
    assert shown(store, state)[3] == row(3, n=None)


def test_new_keys_have_nulls_where_nothing_is_known(store: RetriedStore) -> None:
    state, result = update(store, build(store), [{"id": 5, "a": "x"}, {"id": 100, "a": "y"}])
    assert (result.inserted, result.replaced) == (1, 1)
    assert shown(store, state)[100] == {"id": 100, "a": "y", "n": None, "b": None}
    assert shown(store, state)[5] == row(5, a="x")


def test_an_empty_table_takes_partial_rows(store: RetriedStore) -> None:
    state, result = update(store, build_table(store, SCHEMA, "id"), [{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    assert (result.inserted, result.replaced, sorted(shown(store, state))) == (2, 0, [1, 2])


def test_no_rows_change_nothing(store: RetriedStore) -> None:
    before = build(store)
    empty = pa.table({"id": pa.array([], pa.int64()), "n": pa.array([], pa.int64())})
    state, result = upsert_table(store, before, empty, columns="present")
    assert (state.runs, state.totals, result.inserted, result.version) == (before.runs, before.totals, 0, state.version)
    assert read_history(store, state)[0].version == before.version


def test_a_new_key_without_a_column_that_every_row_must_have_is_refused(store: RetriedStore) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.string(), nullable=False), ("n", pa.int64())])
    state = build_table(store, schema, "id", [{"id": 1, "a": "x", "n": 1}, {"id": 2, "a": "y", "n": 2}])
    with pytest.raises(InvalidError, match=r"df lacks column 'a' \(string\).*no row of the key \{'id': 7\}.*add the column"):
        update(store, state, [{"id": 1, "n": 5}, {"id": 7, "n": 5}])
    assert not list(store.list(WORK_PREFIX))
    state, _ = update(store, state, [{"id": 1, "n": 5}])
    assert [tuple(one.values()) for one in scan_table(store, state)[0].sort_by("id").to_pylist()] == [(1, "x", 5), (2, "y", 2)]


def test_the_last_of_equal_keys_counts(store: RetriedStore) -> None:
    state, result = update(store, build(store), [{"id": 4, "n": 7}, {"id": 4, "n": 9}, {"id": 4, "n": 8}])
    assert (result.duplicates, result.replaced, shown(store, state)[4]) == (2, 1, row(4, n=8))
    state, result = update(store, state, [{"id": 4, "n": 10}, {"id": 4, "n": 12}, {"id": 4, "n": 11}], order_by="n")
    assert (result.duplicates, result.replaced, shown(store, state)[4]) == (2, 1, row(4, n=12))


def test_late_rows_change_nothing(store: RetriedStore) -> None:
    before = build(store)
    state, result = update(
        store, before, [{"id": 10, "n": 9}, {"id": 11, "n": 11}, {"id": 12, "n": None}, {"id": 99, "n": 1}], order_by="n"
    )
    assert (result.late, result.replaced, result.inserted) == (2, 1, 1)
    assert shown(store, state) == shown(store, before) | {99: {"id": 99, "a": None, "n": 1, "b": None}}
    same, result = update(store, state, [{"id": 10, "n": 9}], order_by="n")
    assert (result.late, read_history(store, same)[0].version) == (1, state.version)


def test_deletes_among_the_rows(store: RetriedStore) -> None:
    before = build(store)
    rows = [
        {"id": 1, "n": 5, "gone": True},
        {"id": 2, "n": 5, "gone": False},
        {"id": 3, "n": 5, "gone": None},
        {"id": 77, "n": 1, "gone": True},
    ]
    state, result = update(store, before, [*rows, {"id": 40, "n": 1, "gone": True}], order_by="n", deleted_by="gone")
    assert (result.deleted, result.replaced, result.inserted) == (1, 2, 0)
    expected = shown(store, before) | {2: row(2, n=5), 3: row(3, n=5)}
    del expected[1]
    assert shown(store, state) == expected
    # The rest of a deleted row does not come back.
    state, result = update(store, state, [{"id": 1, "a": "again"}])
    assert (result.inserted, shown(store, state)[1]) == (1, {"id": 1, "a": "again", "n": None, "b": None})


def test_deletes_alone(store: RetriedStore) -> None:
    state, result = update(store, build(store), [{"id": 1, "gone": True}, {"id": 2, "gone": True}], deleted_by="gone")
    assert (result.deleted, result.files, len(shown(store, state))) == (2, 0, 58)


def test_a_batch_counts_once(store: RetriedStore) -> None:
    before = build(store)
    state, _ = update(store, before, [{"id": 1, "n": 5}], batch=("feed", 1))
    again, result = update(store, state, [{"id": 1, "n": 6}], batch=("feed", 1))
    assert (result.repeated, again) == (True, state)
    files = sum(1 for _ in store.list(""))
    # Known only when it is about to be committed.
    again, result = update(store, before, [{"id": 1, "n": 6}], batch=("feed", 1))
    assert (result.repeated, result.replaced, result.files, shown(store, again)[1]["n"]) == (True, 0, 0, 5)
    assert (again.runs, again.batches, read_history(store, again)[0].version) == (state.runs, state.batches, state.version)
    # Its chunkset is gone; the runs that describe it are left to a clean. Two entries say that it came and had nothing to do.
    assert len([found for found in store.list("") if found.path.endswith(".parquet")]) == 4
    assert sum(1 for _ in store.list("")) - files <= 3 + 2


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"a": "x"}], {}, "df lacks column 'id'"),
        ([{"id": 1, "a": "x"}], {"order_by": "n"}, "order_by names column 'n', which df lacks"),
        ([{"id": None, "a": "x"}], {}, "null in key column 'id'"),
    ],
)
def test_rows_that_cannot_be_completed_are_refused(store: RetriedStore, rows: Any, options: Any, message: str) -> None:
    state = build(store)
    with pytest.raises(InvalidError, match=message):
        update(store, state, rows, **options)
    assert read_history(store, state)[0].version == 1


def test_rows_need_what_their_partition_is_computed_from(store: RetriedStore) -> None:
    state = build(store, partition_by="a")
    with pytest.raises(InvalidError, match="df lacks column 'a'"):
        update(store, state, [{"id": 1, "n": 5}])


def test_a_key_lives_in_its_partition(store: RetriedStore) -> None:
    rows = [{"id": number, "a": kind, "n": number, "b": f"{kind}{number}"} for number in range(30) for kind in ("x", "y", "ü/ z")]
    state = build_table(store, SCHEMA, "id", rows, partition_by="a", properties=SMALL)
    state, result = update(store, state, [{"id": 7, "a": "x", "n": -1}, {"id": 7, "a": "ü/ z", "n": -2}, {"id": 7, "a": "new", "n": -3}])
    assert (result.replaced, result.inserted) == (2, 1)
    found = {one["a"]: (one["n"], one["b"]) for one in find_table(store, state, [7])[0].to_pylist()}
    assert found == {"x": (-1, "x7"), "y": (7, "y7"), "ü/ z": (-2, "ü/ z7"), "new": (-3, None)}
    assert not verify_table(Snapshot(store=store, state=state)).problems


def partitions(store: Store, state: TableState) -> dict[str, int]:
    counts: dict[str, int] = {}
    for info, hidden in plan_scan(Snapshot(store=store, state=state), ScanRequest()).visible_chunksets():
        counts[info.partition] = counts.get(info.partition, 0) + info.rows - (len(hidden.rows) if hidden else 0)
    return counts


def test_a_global_key_keeps_its_partition_or_moves(store: RetriedStore) -> None:
    rows = [row(number, a="xy"[number % 2]) for number in range(60)]
    state = build_table(store, SCHEMA, "id", rows, partition_by="a", properties=SMALL | {"global_keys": True})
    # The rows do not say where they belong: those that they replace do.
    state, result = update(store, state, [{"id": number, "n": -number} for number in range(1, 41)])
    assert (result.replaced, partitions(store, state)) == (40, {"a=x": 30, "a=y": 30})
    state, result = update(store, state, [{"id": 2, "a": "y"}, {"id": 4, "a": "y"}, {"id": 5, "a": "z"}])
    assert (result.replaced, partitions(store, state)) == (3, {"a=x": 28, "a=y": 31, "a=z": 1})
    found = shown(store, state)
    assert (found[2], found[5], found[6]) == (row(2, a="y", n=-2), row(5, a="z", n=-5), row(6, a="x", n=-6))
    state, result = update(store, state, [{"id": 5, "b": "moved"}, {"id": 500, "b": "new"}, {"id": 500, "b": "newer"}])
    assert (result.replaced, result.inserted, result.duplicates) == (1, 1, 1)
    assert shown(store, state)[5] == row(5, a="z", n=-5, b="moved")
    assert sorted(partitions(store, state).values()) == [1, 1, 28, 31]


def test_columns_that_came_later_are_kept_null_and_those_renamed_are_kept(store: RetriedStore) -> None:
    state = evolve(store, build(store), Changes(add={"c": "string"}, rename={"b": "bb"}, widen={}, drop=["a"], reorder=()))
    state, _ = update(store, state, [{"id": 5, "n": -5}])
    assert find_table(store, state, [5])[0].to_pylist() == [{"id": 5, "n": -5, "bb": "b5", "c": None}]
    state, _ = update(store, state, [{"id": 5, "c": "c5"}, {"id": 6, "c": "c6"}])
    state, _ = update(store, state, [{"id": 5, "n": 55}])
    assert find_table(store, state, [5, 6])[0].sort_by("id").to_pylist() == [
        {"id": 5, "n": 55, "bb": "b5", "c": "c5"},
        {"id": 6, "n": 6, "bb": "b6", "c": "c6"},
    ]


VALUES: dict[pa.DataType, Sequence[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.uint64(): [2**64 - 1, 0],
    pa.float32(): [0.5, -1.5],
    pa.float64(): [float("inf"), 0.1],
    pa.decimal128(20, 3): [Decimal("1.234"), Decimal("-99999999.999")],
    pa.string(): ["", "ü\0"],
    pa.binary(): [b"", b"\xff\0"],
    pa.date32(): [date(1, 1, 1), date(2026, 11, 1)],
    pa.timestamp("us", tz="UTC"): [datetime(2026, 1, 1, 1, 2, 3, 4, tzinfo=UTC), datetime(1901, 1, 1, tzinfo=UTC)],
    pa.timestamp("us"): [datetime.fromisoformat("2026-01-01T01:02:03.000004"), datetime.fromisoformat("1901-01-01")],
    pa.list_(pa.int64()): [[1, None], []],
    pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]): [{"x": 1, "y": ["a", None]}, {"x": None, "y": None}],
    pa.map_(pa.string(), pa.int64()): [[("a", 1), ("b", None)], []],
}


def test_values_of_all_types_are_kept(store: RetriedStore) -> None:
    kinds = {f"c{number}": (kind, [*values, None]) for number, (kind, values) in enumerate(VALUES.items())}
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), *((name, kind) for name, (kind, _) in kinds.items())])
    rows = [{"id": number, "n": 0, **{name: values[number % 3] for name, (_, values) in kinds.items()}} for number in range(9)]
    before = build_table(store, schema, "id", rows, properties={"chunkset_rows": 4, "granule_rows": 2})
    state, result = update(store, before, [{"id": number, "n": 1} for number in range(10)])
    assert (result.replaced, result.inserted) == (9, 1)
    kept = scan_table(store, state)[0].sort_by("id").slice(0, 9).combine_chunks()
    assert kept.drop_columns("n").equals(scan_table(store, before)[0].sort_by("id").drop_columns("n").combine_chunks())
    assert kept["n"].to_pylist() == [1] * 9


@pytest.mark.parametrize("kind", sorted(map(str, [pa.uint64(), pa.float64(), pa.string(), pa.date32()])))
def test_keys_of_other_types(store: RetriedStore, kind: str) -> None:
    typed = {str(found): found for found in VALUES}[kind]
    schema = pa.schema([("id", typed), ("n", pa.int64()), ("b", pa.string())])
    rows = [{"id": value, "n": 0, "b": f"b{number}"} for number, value in enumerate(VALUES[typed])]
    state = build_table(store, schema, "id", rows)
    state, result = update(store, state, [{"id": value, "n": 1} for value in VALUES[typed]])
    assert (result.replaced, sorted(scan_table(store, state)[0]["b"].to_pylist())) == (2, ["b0", "b1"])


def test_work_follows_the_rows(store: RetriedStore) -> None:
    """Only granules that may hold a key are read, and only rows of the batch are written, whatever the size of the table."""
    requests = []
    for count in (2_000, 20_000):
        apart = open_store(StoreConfig(uri=f"memory://partial-work-{count}"))
        rows = [row(number) for number in range(count)]
        state = build_table(apart, SCHEMA, "id", rows, properties={"chunkset_rows": count // 10, "granule_rows": 50})
        measured = apart.apart()
        after, result = update(measured, state, [{"id": number, "n": -1} for number in (5, count // 2 + 1, count - 3)])
        assert (result.replaced, after.totals.rows - state.totals.rows, result.files) == (3, 3, 1)
        requests.append(result.requests)
    assert requests[1] <= requests[0] + 3


@pytest.mark.parametrize("indexes", [(), None])
def test_only_candidates_are_read(store: RetriedStore, indexes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    state = build(store, 400, indexes=indexes, bloom_columns="id")
    read: list[int] = []
    real = partial_read.match_rows

    def counting(*arguments: Any) -> Any:
        found = real(*arguments)
        read.append(found.granules_read)
        return found

    monkeypatch.setattr(partial_read, "match_rows", counting)
    state, result = update(store, state, [{"id": number, "n": -1} for number in (1, 2, 399)])
    assert (read, result.replaced, result.bytes > 0) == ([1, 1], 3, True)


class TestForks:
    """Others commit between the version that rows were completed from and the commit."""

    def test_newer_values_are_kept(self, store: RetriedStore) -> None:
        base = build(store)
        update(store, base, [{"id": 3, "a": "other"}, {"id": 4, "a": "other"}])
        before = {found.path for found in store.list("")}
        state, result = update(store, base, [{"id": 3, "n": -3}, {"id": 30, "n": -30}])
        assert (result.healed, result.replaced, result.inserted, result.version) == (1, 2, 0, state.version)
        assert _actions(store, state) == ["upsert", "upsert", "append", "create"]
        found = shown(store, state)
        assert (found[3], found[4], found[30]) == (row(3, a="other", n=-3), row(4, a="other"), row(30, n=-30))
        # The file of the lost round is gone again.
        new = [found.path for found in store.list("") if found.path not in before and found.path.endswith(".parquet")]
        assert len(new) == result.files == 1

    def test_others_keys_make_no_second_round(self, store: RetriedStore) -> None:
        base = build(store)
        update(store, base, [{"id": 3, "a": "other"}, {"id": 300, "a": "other"}])
        delete_table(store, base, [{"id": 5}])
        state, result = update(store, base, [{"id": 4, "n": -4}, {"id": 400, "n": -4}])
        assert (result.healed, result.version) == (0, state.version)
        assert _actions(store, state) == ["upsert", "delete", "upsert", "append", "create"]
        found = shown(store, state)
        assert (found[3], found[4], found[400]["n"], 5 in found) == (row(3, a="other"), row(4, n=-4), -4, False)

    def test_a_row_deleted_meanwhile_does_not_come_back(self, store: RetriedStore) -> None:
        base = build(store)
        delete_table(store, base, [{"id": 3}])
        state, result = update(store, base, [{"id": 3, "n": -3}])
        assert (result.healed, result.inserted, result.replaced) == (1, 1, 0)
        assert shown(store, state)[3] == {"id": 3, "a": None, "n": -3, "b": None}

    def test_a_key_inserted_meanwhile_is_completed(self, store: RetriedStore) -> None:
        base = build(store)
        upsert_table(store, base, [row(100, a="other")])
        state, result = update(store, base, [{"id": 100, "n": -3}])
        assert (result.healed, result.inserted, result.replaced) == (1, 0, 1)
        assert shown(store, state)[100] == row(100, a="other", n=-3)

    def test_a_newer_row_committed_meanwhile_wins(self, store: RetriedStore) -> None:
        base = build(store)
        upsert_table(store, base, [row(3, n=50)], order_by="n")
        state, result = update(store, base, [{"id": 3, "n": 40}, {"id": 4, "n": 40}], order_by="n")
        assert (result.late, result.replaced, result.healed) == (1, 1, 1)
        assert (shown(store, state)[3], shown(store, state)[4]) == (row(3, n=50), row(4, n=40))

    def test_a_row_whose_better_was_deleted_meanwhile_is_late_no_more(self, store: RetriedStore) -> None:
        base = build(store)
        delete_table(store, base, [{"id": 30}])
        state, result = update(store, base, [{"id": 30, "n": 1}, {"id": 40, "n": 50}], order_by="n")
        assert (result.late, result.replaced, result.inserted) == (0, 1, 1)
        assert shown(store, state)[30] == {"id": 30, "a": None, "n": 1, "b": None}

    def test_a_row_deleted_here_and_written_there_is_gone(self, store: RetriedStore) -> None:
        base = build(store)
        upsert_table(store, base, [row(3, a="other"), row(4, a="other")])
        state, result = update(store, base, [{"id": 3, "n": 1, "gone": True}, {"id": 9, "n": 1, "gone": False}], deleted_by="gone")
        assert (result.deleted, 3 in shown(store, state), shown(store, state)[9]) == (1, False, row(9, n=1))

    def test_other_partitions_are_not_compared(self, store: RetriedStore) -> None:
        base = build_table(
            store, SCHEMA, "id", [row(number, a="xy"[number % 2]) for number in range(60)], partition_by="a", properties=SMALL
        )
        update(store, base, [{"id": 3, "a": "y", "n": -3}])
        state, result = update(store, base, [{"id": 3, "a": "x", "b": "new"}, {"id": 4, "a": "x", "b": "new"}])
        assert (result.healed, result.inserted, result.replaced) == (0, 1, 1)
        assert {(one["a"], one["b"]) for one in find_table(store, state, [3])[0].to_pylist()} == {("y", "b3"), ("x", "new")}

    def test_a_global_key_that_moved_meanwhile(self, store: RetriedStore) -> None:
        rows = [row(number, a="xy"[number % 2]) for number in range(60)]
        base = build_table(store, SCHEMA, "id", rows, partition_by="a", properties=SMALL | {"global_keys": True})
        update(store, base, [{"id": 4, "a": "z"}])
        state, result = update(store, base, [{"id": 4, "n": -4}])
        assert (result.healed, shown(store, state)[4], partitions(store, state)) == (
            1,
            row(4, a="z", n=-4),
            {"a=x": 29, "a=y": 30, "a=z": 1},
        )

    def test_many_rounds(self, store: RetriedStore) -> None:
        base = build(store)
        others = (lambda number=number: upsert_table(store, base, [row(3, a=f"other {number}")]) for number in range(5))
        state, result = self.against(store, base, others)
        assert (result.healed, result.version, shown(store, state)[3]) == (5, state.version, row(3, a="other 4", n=-3))
        assert _actions(store, state) == ["upsert"] * 6 + ["append", "create"]

    def test_it_gives_up(self, store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
        base = build(store)
        monkeypatch.setattr(partial, "MOST_ROUNDS", 3)
        others = (lambda number=number: upsert_table(store, base, [row(3, a=f"other {number}")]) for number in range(5))
        with pytest.raises(ConflictError, match="3 times while this upsert of some columns was made; retry"):
            self.against(store, base, others)
        assert not list(store.list(WORK_PREFIX))

    @staticmethod
    def against(store: RetriedStore, base: TableState, others: Iterable[Callable[[], object]]) -> tuple[TableState, Any]:
        """An update of row 3, with one commit of others after each time that it was completed."""
        waiting = iter(others)
        real = partial.complete_here

        def interfered(*arguments: Any) -> Any:
            made = real(*arguments)
            next(waiting, lambda: None)()
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partial, "complete_here", interfered)
            jobs = LocalPartialJobs(rows=pa.table({"id": [3], "n": [-3]}), store=store)
            patch.setattr(LocalPartialJobs, "complete", lambda self, sources, plan: interfered(self.store, sources, plan))
            fields = [base.definition.schema.field(name, "test") for name in ("id", "n")]
            return partial.upsert_present(store, base, partial.ChangeOptions(only_present=True), fields, jobs, SYSTEM)


@pytest.mark.parametrize("sent", [0, 1, 4])
def test_rows_in_many_staged_files_and_files_that_are_read_on_the_spot(
    store: RetriedStore, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partial_stage, "_MOST_ROWS", 1)
    monkeypatch.setattr(compare, "MOST_SENT", sent)
    monkeypatch.setattr(changes, "_BATCH_ROWS", 7)
    state, result = update(store, build(store), [{"id": number, "n": -number} for number in range(0, 70, 2)])
    assert (result.replaced, result.inserted, result.files) == (30, 5, 6)
    expected = {number: row(number, n=-number if number % 2 == 0 else number) for number in range(60)}
    assert shown(store, state) == expected | {n: {"id": n, "a": None, "n": -n, "b": None} for n in range(60, 70, 2)}


def test_writers_of_different_columns_lose_nothing(store: RetriedStore) -> None:
    """Each writes its own column of the same rows, at once and from whatever version it sees; every one of them stands."""
    build(store, 6)
    rounds = 6

    def write(name: str) -> None:
        for number in range(rounds):
            value: Any = number if name == "n" else f"{name}{number}"
            update(store.apart(), read_newest(store), [{"id": key, name: value} for key in range(6)])

    with ThreadPoolExecutor(max_workers=3) as pool:
        list(pool.map(write, COLUMNS))
    state = read_newest(store)
    assert _actions(store, state) == ["upsert"] * 3 * rounds + ["append", "create"]
    assert shown(store, state) == {key: {"id": key, "a": "a5", "n": 5, "b": "b5"} for key in range(6)}


COLUMNS = ("a", "n", "b")


@settings(max_examples=25)
@given(data=st.data())
def test_any_series_of_updates_is_that_of_a_dict(data: st.DataObject) -> None:
    """Each from the newest version or from an old one: the order of the commits explains the result."""
    store = open_store(StoreConfig(uri=f"memory://partial-model-{SYSTEM.new_id()}"))
    model = {number: row(number) for number in range(12)}
    indexes = data.draw(st.sampled_from([(), (PointIndex("id"),)]))
    state = build_table(store, SCHEMA, "id", model.values(), properties={"chunkset_rows": 5, "granule_rows": 2}, indexes=indexes)
    states = [state]
    for _ in range(data.draw(st.integers(1, 5))):
        names = data.draw(st.sets(st.sampled_from(COLUMNS)))
        keys = data.draw(st.lists(st.integers(0, 15), min_size=1, max_size=6))
        rows = [{"id": key, "gone": data.draw(st.booleans()), **{name: data.draw(_value(name)) for name in names}} for key in keys]
        base = states[data.draw(st.integers(0, len(states) - 1))]
        state, result = update(store, base, rows, deleted_by="gone")
        if not result.files and not result.deleted:
            # Deletes of nothing that the base knows: there is nothing to commit, whatever others did since.
            assert all(last["gone"] for last in {one["id"]: one for one in rows}.values())
            assert base is not states[-1] or model.keys().isdisjoint(keys)
            continue
        states.append(state)
        for one in rows:
            last = [other for other in rows if other["id"] == one["id"]][-1]
            if one is last:
                _apply(model, one, names)
        assert {one["id"]: one for one in scan_table(store, state)[0].to_pylist()} == model
    assert shown(store, states[-1]) == model


def _value(name: str) -> st.SearchStrategy[Any]:
    return st.none() | (st.integers(0, 9) if name == "n" else st.sampled_from("xyz"))


def _apply(model: dict[int, dict[str, Any]], one: dict[str, Any], names: set[str]) -> None:
    if one["gone"]:
        model.pop(one["id"], None)
        return
    empty = {"id": one["id"], "a": None, "n": None, "b": None}
    model[one["id"]] = model.get(one["id"], empty) | {name: one[name] for name in names}
