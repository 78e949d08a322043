"""Column statistics of chunksets: true bounds for every type, typed, and made without reading anything back."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.format.key_order import encode_value
from needlefish.format.metadata_key import column_key
from needlefish.index.run_reader import RunReader
from needlefish.model.entries import ColumnStats
from needlefish.model.types import parse_type
from needlefish.store import RetriedStore, open_store
from needlefish.testing.faulty_store import FaultyStore
from needlefish.testing.tables import append_rows, build_table, write_rows

POOLS: dict[str, list[Any]] = {
    "boolean": [True, False, True],
    "int8": [5, -128, 127, 9, 10],
    "int16": [2**15 - 1, -(2**15), 0],
    "int32": [9, 10, -5, -10, 2**31 - 1, -(2**31)],
    "int64": [9, 10, 2**63 - 1, -(2**63)],
    "uint8": [9, 10, 255, 0],
    "uint16": [2**16 - 1, 1],
    "uint32": [2**32 - 1, 2**31, 1],
    "uint64": [2**64 - 1, 2**63, 1],
    "float": [1.5, -1.5, 0.25],
    "double": [1e300, -1e300, 0.1],
    "decimal(3,2)": [Decimal("9.00"), Decimal("-1.00"), Decimal("0.01")],
    "decimal(20,0)": [Decimal(10**19), Decimal(-(10**19)), Decimal(9)],
    "decimal(38,10)": [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")],
    "string": ["9", "10", "a", "é", "Z", ""],
    "binary": [b"\xff", b"", b"\x00\xff", b"a"],
    "date": [date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)],
    "timestamp_ntz": [datetime(1969, 1, 1), datetime(2026, 11, 1, 0, 0, 0, 1)],  # noqa: DTZ001
}


_numbers = count()


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://column-stats-{next(_numbers)}"))


def stats_of(store: RetriedStore, kind: str, values: list[Any], granule_rows: int = 2) -> ColumnStats:
    state = build_table(store, f"id int32, v {kind}", "id", properties={"granule_rows": granule_rows})
    written = write_rows(store, state, [{"id": number, "v": value} for number, value in enumerate(values)])
    (entry,) = written.entries
    return next(stats for stats in entry.column_stats if stats.field_id == 2)


@pytest.mark.parametrize("kind", POOLS)
def test_bounds_are_typed_and_exact(store: RetriedStore, kind: str) -> None:
    values = POOLS[kind]
    stats = stats_of(store, kind, [*values, None])
    arrow = parse_type(kind)
    assert stats.min == encode_value(min(values), arrow)
    assert stats.max == encode_value(max(values), arrow)
    assert (stats.value_count, stats.null_count, stats.has_nan) == (len(values) + 1, 1, False)
    assert stats.total_uncompressed_size > 0
    assert stats.total_size > 0


@pytest.mark.parametrize("kind", [*POOLS, "list<int32>", "struct<a:int32>"])
def test_all_null(store: RetriedStore, kind: str) -> None:
    if "<" in kind:
        with pytest.raises(StopIteration):
            stats_of(store, kind, [None, None])
        return
    stats = stats_of(store, kind, [None] * 5)
    assert (stats.min, stats.max, stats.value_count, stats.null_count, stats.has_nan) == (None, None, 5, 5, False)


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize(
    ("values", "lowest", "highest", "has_nan"),
    [
        ([1.0, math.nan, -2.0], -2.0, 1.0, True),
        ([math.nan, math.nan, math.nan, math.nan], None, None, True),
        ([1.0, 2.0, math.nan, math.nan], None, None, True),
        ([-0.0, -0.0], 0.0, 0.0, False),
        ([0.0, 0.0], 0.0, 0.0, False),
        ([-0.0, 0.0, 1.0], 0.0, 1.0, False),
        ([None, math.inf, -math.inf], -math.inf, math.inf, False),
    ],
)
def test_nan_and_zeros(
    store: RetriedStore, kind: str, values: list[Any], lowest: float | None, highest: float | None, has_nan: bool
) -> None:
    """A granule of NaN alone has no bounds in Parquet, so that the chunkset has none; -0.0 and 0.0 are one value."""
    stats = stats_of(store, kind, values)
    arrow = parse_type(kind)
    assert stats.min == (None if lowest is None else encode_value(lowest, arrow))
    assert stats.max == (None if highest is None else encode_value(highest, arrow))
    assert stats.has_nan is has_nan


_TEXTS = st.lists(st.text(max_size=200) | st.text(alphabet="\U0010ffff\x7fÿ", min_size=30, max_size=120), min_size=1, max_size=6)


@given(values=_TEXTS)
def test_bounds_of_long_texts_are_short_and_still_bounds(values: list[str]) -> None:
    values = [value.encode("utf-8", "ignore").decode() for value in values]
    stats = stats_of(fresh_store(), "string", values)
    encoded = [encode_value(value, pa.string()) for value in values]
    assert stats.min is not None
    assert stats.max is not None
    assert len(stats.min) <= 64
    assert len(stats.max) <= 64
    assert all(stats.min <= value for value in encoded)
    assert all(value <= stats.max for value in encoded)


@given(
    values=st.lists(
        st.binary(max_size=100) | st.binary(min_size=60, max_size=80).map(lambda tail: b"\xff" * 70 + tail), min_size=1, max_size=5
    )
)
def test_bounds_of_long_binaries_are_bounds(values: list[bytes]) -> None:
    stats = stats_of(fresh_store(), "binary", values)
    encoded = [encode_value(value, pa.binary()) for value in values]
    assert stats.min is not None
    assert stats.max is not None
    assert all(stats.min <= value for value in encoded)
    assert all(value <= stats.max for value in encoded)


def test_a_text_too_long_for_parquet_has_no_bounds_or_true_ones(store: RetriedStore) -> None:
    """Parquet leaves statistics out above a few KiB."""
    values = ["b" * 100_000, "a" * 100_000]
    stats = stats_of(store, "string", values)
    if stats.min is not None and stats.max is not None:
        assert stats.min <= encode_value("a" * 100_000, pa.string())
        assert stats.max >= encode_value("b" * 100_000, pa.string())
    assert stats.value_count == 2


def test_a_part_of_a_struct_does_not_speak_for_a_column_of_its_path(store: RetriedStore) -> None:
    schema = pa.schema([("id", pa.int32()), ("a", pa.struct([("b", pa.int32())])), ("a.b", pa.int32())])
    state = build_table(store, schema, "id")
    (entry,) = write_rows(store, state, [{"id": 1, "a": {"b": 100}, "a.b": 5}]).entries
    for stats in entry.column_stats:
        if stats.field_id == 3:
            assert stats.min in (None, encode_value(5, pa.int32()))
    assert {stats.field_id for stats in entry.column_stats} <= {1, 3}


def test_a_write_reads_nothing_back(store: RetriedStore) -> None:
    base = build_table(store, "id int32, v string", "id", properties={"granule_rows": 10})
    watched = FaultyStore(store)
    append_rows(watched, base, [{"id": number, "v": str(number)} for number in range(100)])
    reads = [call for call in watched.calls if call.kind in ("get", "get_range", "head", "list")]
    # Only whether the next version is free, and whether that is the end of the log rather than what a clean removed.
    assert [call.path for call in reads] == ["_needlefish/log/00000000000000000001.json", "_needlefish/log/00000000000000000000.json"]
    assert [call.kind for call in watched.calls if call.path.startswith("data/")] == ["put"]


def test_every_primitive_column_of_every_file_has_a_record(store: RetriedStore) -> None:
    state = build_table(
        store, "id int32, v string, tags list<string>, n double", "id",
        [{"id": number, "v": f"v{number}", "tags": ["x"], "n": None} for number in range(50)],
        partition_by=["bucket(id, 3)"], properties={"chunkset_rows": 10},
    )  # fmt: skip
    infos = [row for batch in RunReader(state.runs_of("files")[0]).scan(store) for row in batch.to_pylist()]
    records = [row for batch in RunReader(state.runs_of("column_stats")[0]).scan(store) for row in batch.to_pylist()]
    keys = {column_key(str(field_id), info["partition"], f"{info['id']}.parquet") for info in infos for field_id in (1, 2, 4)}
    assert {record["key"] for record in records} == keys
    assert len(records) == 3 * len(infos) == 3 * state.totals.files
    assert sum(record["value_count"] for record in records if record["field_id"] == 1) == 50
    assert sum(record["null_count"] for record in records if record["field_id"] == 4) == 50
