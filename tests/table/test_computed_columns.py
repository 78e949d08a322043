"""Predicates mapped through every computed column, counting the files that are read for them."""

# Times without a zone are a type of column here.
# ruff: noqa: DTZ001

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.model.schema import schema_from_text
from needlefish.store import RetriedStore, open_store
from needlefish.table.create import define_table
from needlefish.table.partition import Computed, computed_columns
from needlefish.testing.tables import build_table, scan_table

_SCHEMA = "id int32, ts timestamp, n int32, x double, s string, code int64"


def _rows() -> list[dict[str, Any]]:
    """Ten days from 2026-01-28, 24 rows each; `n` from -120 to 119, `s` in four words or null."""
    start = datetime(2026, 1, 28, tzinfo=UTC)
    words = ["apple", "apricot", "banana", None]
    return [
        {"id": i, "ts": start + timedelta(hours=i), "n": i - 120, "x": (i - 120) / 10, "s": words[i % 4], "code": i % 7 if i % 8 else None}
        for i in range(240)
    ]


# partition_by, where, mode, partitions looked up, files read: every file is one partition.
_CASES = [
    ("code", "code = 3", "single partition", 1, 1),
    ("code", "code IN (1, 2)", "several partitions", 2, 2),
    ("code", "code IS NULL", "single partition", 1, 1),
    ("code", "code >= 5", "filtered scan", None, 2),
    ("code", "code != 5", "filtered scan", None, 6),
    ("code", "code NOT IN (1, 2)", "filtered scan", None, 5),
    ("code", "code IS NOT NULL", "filtered scan", None, 7),
    ("code", "code = 3 OR code = 4", "several partitions", 2, 2),
    ("code", "code = 3 AND code = 4", "single partition", 0, 0),
    ("code", "code = 3 AND s = 'apple'", "single partition", 1, 1),
    ("code", "code = 3 OR s = 'apple'", "filtered scan", None, 8),
    ("code", "code = 1.5", "single partition", 0, 0),
    ("constant('all')", "n = 3", "single partition", 1, 1),
    ("constant('all')", "n > 3", "single partition", 1, 1),
    ("get_or_else(code, 3)", "code = 3", "single partition", 1, 1),
    ("get_or_else(code, 3)", "code IS NULL", "single partition", 1, 1),
    ("get_or_else(code, 3)", "code IN (3, 4)", "several partitions", 2, 2),
    ("get_or_else(code, 3)", "code > 3", "filtered scan", None, 3),
    ("round(n, 10)", "n = -1", "single partition", 1, 1),
    ("round(n, 10)", "n IN (-1, -10, 0)", "several partitions", 2, 2),
    ("round(n, 10)", "n BETWEEN 0 AND 19", "filtered scan", None, 2),
    ("round(n, 10)", "n < -110", "filtered scan", None, 1),
    ("round(n, 10)", "n >= 109.5", "filtered scan", None, 1),
    ("round(x, 0.5)", "x = -0.1", "single partition", 1, 1),
    ("round(x, 0.5)", "x > 11.2", "filtered scan", None, 2),
    ("time_slice(ts, '6h')", "ts = '2026-01-30T07:00:00Z'", "single partition", 1, 1),
    ("time_slice(ts, '6h')", "ts IN ('2026-01-30T07:00:00Z', '2026-01-30T13:00:00Z')", "several partitions", 2, 2),
    ("time_slice(ts, '6h')", "ts >= '2026-01-30' AND ts < '2026-01-31'", "filtered scan", None, 5),
    ("time_slice(ts, '6h')", "ts BETWEEN '2026-01-30' AND '2026-01-30T23:59:59'", "filtered scan", None, 4),
    ("year(ts)", "ts = '2026-02-01'", "single partition", 1, 1),
    ("year(ts)", "ts < '2026-01-01'", "filtered scan", None, 1),
    ("year(ts)", "ts < '2025-12-31'", "filtered scan", None, 0),
    ("month(ts)", "ts = '2026-02-01'", "single partition", 1, 1),
    ("month(ts)", "ts IN ('2026-02-01', '2026-01-29', '2026-02-02')", "several partitions", 2, 2),
    ("month(ts)", "ts > '2026-02-01'", "filtered scan", None, 1),
    ("day(ts)", "ts = '2026-02-01T13:00:00Z'", "single partition", 1, 1),
    ("day(ts)", "ts IN ('2026-02-01T13:00:00Z', '2026-02-03')", "several partitions", 2, 2),
    ("day(ts)", "ts >= '2026-02-01' AND ts <= '2026-02-03T23:00:00Z'", "filtered scan", None, 3),
    ("day(ts)", "ts != '2026-02-01'", "filtered scan", None, 10),
    ("hour(ts)", "ts = '2026-02-01T13:00:00Z'", "single partition", 1, 1),
    ("hour(ts)", "ts BETWEEN '2026-02-01T13:00:00Z' AND '2026-02-01T15:00:00Z'", "filtered scan", None, 3),
    ("prefix(s, 2)", "s = 'banana'", "single partition", 1, 1),
    ("prefix(s, 2)", "s IN ('apple', 'apricot')", "single partition", 1, 1),
    ("prefix(s, 2)", "s IN ('apple', 'banana')", "several partitions", 2, 2),
    ("prefix(s, 2)", "s LIKE 'b%'", "filtered scan", None, 1),
    ("prefix(s, 2)", "s LIKE 'apr%'", "filtered scan", None, 1),
    ("prefix(s, 2)", "s > 'b'", "filtered scan", None, 1),
    ("prefix(s, 2)", "s IS NULL", "single partition", 1, 1),
    ("bucket(n, 8)", "n = 17", "single partition", 1, 1),
    ("bucket(n, 8)", "n > 17", "filtered scan", None, 8),
]


@pytest.mark.parametrize(
    ("partition_by", "where", "mode", "partitions", "files"), _CASES, ids=[f"{by}: {where}" for by, where, *_ in _CASES]
)
def test_a_predicate_reaches_its_partitions_only(
    store: RetriedStore,
    plain: tuple[RetriedStore, TableState],
    partition_by: str,
    where: str,
    mode: str,
    partitions: int | None,
    files: int,
) -> None:
    state = build_table(store, _SCHEMA, "id", _rows(), partition_by=partition_by)
    apart = store.apart()
    found, receipt = scan_table(apart, state, where=where)
    assert (receipt.mode, receipt.partitions, receipt.files_read) == (mode, partitions, files)
    # A request at least for each file, and the run, which is small and comes whole.
    assert receipt.files_read <= apart.meter.snapshot().get_range.requests - (0 if partitions == 0 else 1)
    wanted, _ = scan_table(*plain, where=where)
    assert sorted(found["id"].to_pylist()) == wanted["id"].to_pylist()


@pytest.fixture(scope="module")
def plain() -> tuple[RetriedStore, TableState]:
    """The same rows without partitions."""
    store = open_store(StoreConfig(uri="memory://table-computed-plain"))
    return store, build_table(store, _SCHEMA, "id", _rows())


def _computed(text: str, schema: str = _SCHEMA) -> Computed:
    (column,) = computed_columns(define_table(schema_from_text(schema), "id", text, {}))
    return column


@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [
        ("n", -5, "-5"),
        ("constant('it''s')", None, "it's"),
        ("get_or_else(n, 7)", None, "7"),
        ("get_or_else(n, 7)", 8, "8"),
        ("round(n, 10)", -1, "-10"),
        ("round(n, 10)", -10, "-10"),
        ("round(n, 10)", 19, "10"),
        ("round(code, 10)", -(2**63), str(-(2**63))),
        ("round(code, 10)", 2**63 - 1, "9223372036854775800"),
        ("round(x, 0.5)", -0.1, "-0.5"),
        ("round(x, 0.5)", -0.0, "0.0"),
        ("round(x, 0.5)", float("nan"), "nan"),
        ("round(x, 0.5)", float("inf"), "inf"),
        ("time_slice(ts, '7d')", datetime(1969, 12, 31, 23, tzinfo=UTC), "1969-12-25T00:00:00Z"),
        ("time_slice(ts, '30s')", datetime(2026, 1, 1, 0, 0, 59, 999999, tzinfo=UTC), "2026-01-01T00:00:30Z"),
        ("year(ts)", datetime(1969, 12, 31, 23, tzinfo=UTC), "1969"),
        ("month(ts)", datetime(1969, 12, 31, 23, tzinfo=UTC), "1969-12"),
        ("day(ts)", datetime(1969, 12, 31, 23, tzinfo=UTC), "1969-12-31"),
        ("hour(ts)", datetime(1969, 12, 31, 23, 59, tzinfo=UTC), "1969-12-31-23"),
        ("hour(ts)", datetime(7, 1, 1, 5, tzinfo=UTC), "0007-01-01-05"),
        ("day(ts)", datetime(7, 1, 1, tzinfo=UTC), "0007-01-01"),
        ("prefix(s, 2)", "\U0001f41fäx", "\U0001f41fä"),
        ("prefix(s, 2)", "a", "a"),
        ("prefix(s, 2)", "", ""),
        ("s", None, None),
        ("prefix(s, 2)", None, None),
        ("bucket(s, 4)", None, None),
        ("day(ts)", None, None),
        ("round(n, 10)", None, None),
        ("time_slice(ts, '1h')", None, None),
    ],
)
def test_a_result_as_text_and_back(text: str, value: object, wanted: str | None) -> None:
    column = _computed(text)
    assert column.text_of(value) == wanted
    parsed = column.parse(wanted)
    assert parsed == column.of(value) or (parsed != parsed and column.of(value) != column.of(value))


def test_decimals_and_dates_are_written_plainly() -> None:
    schema = "id int32, m decimal(20,10), day date, raw binary, b boolean, wall timestamp_ntz"
    assert _computed("m", schema).text_of(Decimal("0.0000000001")) == "0.0000000001"
    assert _computed("m", schema).text_of(Decimal(0)) == "0.0000000000"
    assert _computed("day", schema).text_of(date(1, 1, 1)) == "0001-01-01"
    assert _computed("raw", schema).text_of(b"\x00\xff") == "00ff"
    assert _computed("b", schema).text_of(False) == "false"
    assert _computed("wall", schema).text_of(datetime(2026, 1, 1, 0, 0, 0, 5)) == "2026-01-01T00:00:00.000005"


# Do not change: rows of existing tables lie in these buckets. A column that is widened later keeps them.
@pytest.mark.parametrize(("kind", "value"), [("int8", 17), ("int16", 17), ("int32", 17), ("int64", 17), ("uint8", 17), ("uint32", 17)])
def test_a_bucket_does_not_depend_on_the_width(kind: str, value: int) -> None:
    assert _computed("bucket(v, 1000)", f"id int32, v {kind}").of(value) == _computed("bucket(v, 1000)", "id int32, v int64").of(17)


def test_buckets_are_pinned() -> None:
    schema = "id int32, i int64, s string, m decimal(9,2), w decimal(38,2), day date, ts timestamp, raw binary"
    pinned = {
        name: _computed(f"bucket({name}, 1000)", schema).of(value)
        for name, value in {
            "i": 17,
            "s": "needle",
            "m": Decimal("1.50"),
            "w": Decimal("1.50"),
            "day": date(2026, 1, 1),
            "ts": datetime(2026, 1, 1, tzinfo=UTC),
            "raw": b"needle",
        }.items()
    }
    assert pinned["m"] == pinned["w"]
    assert pinned["s"] == pinned["raw"]
    assert pinned == {"i": 112, "s": 221, "raw": 221, "m": 479, "w": 479, "day": 506, "ts": 409}


_INSTANTS = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31, 23, 59, 59, 999999))


@given(moments=st.lists(_INSTANTS, min_size=1, max_size=20), instant=st.booleans())
def test_calendar_columns_agree_with_python(moments: list[datetime], instant: bool) -> None:
    values = [moment.replace(tzinfo=UTC) if instant else moment for moment in moments]
    schema = f"id int32, ts {'timestamp' if instant else 'timestamp_ntz'}"
    for value in values:
        assert _computed("year(ts)", schema).of(value) == value.year
        assert _computed("month(ts)", schema).of(value) == value.date().replace(day=1)
        assert _computed("day(ts)", schema).of(value) == value.date()
        assert _computed("hour(ts)", schema).of(value) == value.replace(minute=0, second=0, microsecond=0)


@given(value=st.integers(-(2**63), 2**63 - 1), step=st.integers(1, 10**9))
def test_rounding_integers_goes_down(value: int, step: int) -> None:
    found = _computed(f"round(code, {step})").of(value)
    assert found == max(value // step * step, -(2**63))


@pytest.mark.parametrize(
    ("partitions", "where", "mode", "files"),
    [
        ({"day": "2026-02-01"}, None, "filtered scan", 4),
        ({"day": "2026-02-01", "prefix": "a"}, None, "single partition", 1),
        ({"day": date(2026, 2, 1), "prefix": "a"}, None, "single partition", 1),
        ({"day": ["2026-02-01", "2026-02-02"], "prefix": ["a", "b"]}, None, "several partitions", 4),
        ({"day": "2026-02-01", "prefix": None}, None, "single partition", 1),
        ({"prefix": ["a", None]}, None, "filtered scan", 20),
        ({"day": "2027-01-01", "prefix": "a"}, None, "single partition", 0),
        ({"day": []}, None, "filtered scan", 0),
        ({}, None, "filtered scan", 40),
        ({"day": "2026-02-01", "prefix": "a"}, "ts = '2026-02-02' AND s = 'apple'", "single partition", 0),
        ({"day": "2026-02-01", "prefix": "a"}, "ts = '2026-02-01' AND s IN ('apple', 'banana')", "single partition", 1),
        ({"day": "2026-02-01"}, "s = 'banana'", "filtered scan", 1),
    ],
)
def test_partitions_are_chosen_by_their_own_values(
    store: RetriedStore, partitions: dict[str, object], where: str | None, mode: str, files: int
) -> None:
    rows = [row | {"s": [*"abc", None][row["id"] % 4]} for row in _rows()]
    state = build_table(store, _SCHEMA, "id", rows, partition_by=["day(ts)", "prefix(s, 1)"])
    assert state.totals.files == 40
    _, receipt = scan_table(store, state, partitions=partitions, where=where)
    assert (receipt.mode, receipt.files_read) == (mode, files)


@pytest.mark.parametrize(
    ("partitions", "complaint"),
    [
        ({"hour": "x"}, "partitions names 'hour'; the table is partitioned by day"),
        ({"ts": "2026-02-01"}, "partitions names 'ts'; the table is partitioned by day"),
        ({"day": "yesterday"}, r"partitions\['day'\] is 'yesterday', which is no value of type date32"),
        ({"day": 5}, r"partitions\['day'\] is 5"),
        ({"day": ["2026-02-01", 5]}, r"partitions\['day'\] is 5"),
    ],
)
def test_wrong_partitions_are_refused(store: RetriedStore, partitions: dict[str, object], complaint: str) -> None:
    state = build_table(store, _SCHEMA, "id", partition_by="day(ts)")
    with pytest.raises(InvalidError, match=complaint):
        scan_table(store, state, partitions=partitions)


def test_partitions_of_a_table_without_any_are_refused(store: RetriedStore) -> None:
    state = build_table(store, _SCHEMA, "id")
    with pytest.raises(InvalidError, match="partitions names 'day'; the table is partitioned by nothing"):
        scan_table(store, state, partitions={"day": "2026-02-01"})


def test_nan_is_looked_up_like_any_number(store: RetriedStore) -> None:
    """NaN is not equal to itself in Python, so that sets of values would lose it."""
    state = build_table(store, _SCHEMA, "id", [{"id": 1, "x": float("nan")}, {"id": 2, "x": 1.0}], partition_by="round(x, 1)")
    nan = "CAST('NaN' AS DOUBLE)"
    found, receipt = scan_table(store, state, where=f"x = {nan} AND x IN ({nan}, 7)")
    assert (found["id"].to_pylist(), receipt.mode, receipt.files_read) == ([1], "single partition", 1)


def test_values_of_a_long_list_are_computed_once(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each value, not for each value and partition."""
    state = build_table(store, _SCHEMA, "id", _rows(), partition_by="round(n, 10)")
    calls = 0
    of = Computed.of

    def counted(self: Computed, value: object) -> object:
        nonlocal calls
        calls += 1
        return of(self, value)

    monkeypatch.setattr(Computed, "of", counted)
    found, receipt = scan_table(store, state, where=f"n > -200 AND n IN ({', '.join(map(str, range(0, 12_000, 10)))})")
    assert (found.num_rows, receipt.files_read, receipt.files_listed) == (12, 12, 24)
    assert calls == 1_201


def test_too_many_values_read_the_file_list_instead(store: RetriedStore) -> None:
    state = build_table(store, _SCHEMA, "id", _rows(), partition_by="round(n, 10)")
    _, receipt = scan_table(store, state, where=f"n IN ({', '.join(map(str, range(0, 11_000, 10)))})")
    assert (receipt.mode, receipt.files_read) == ("filtered scan", 12)
