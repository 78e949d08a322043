"""The advisor: what it forecasts from a sample, against the indexes as they are then built."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.services.build_index import BuildPlan, build_here
from needlefish.store import RetriedStore, open_store
from needlefish.table.advise import Advice, Forecast, Measured, advise
from needlefish.table.point.declare import PointIndex, define_index
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.testing.tables import build_table

ROWS = 160_000
# Random values that the measured false reads were counted over.
PROBES = 256


@pytest.fixture(scope="module")
def table() -> tuple[RetriedStore, TableState]:
    """160 granules of 1,000 rows in 40 files: unique numbers, repeated ones, half of them null, and one that is always the same."""
    store = open_store(StoreConfig(uri="memory://advise"))
    rng = np.random.default_rng(5)
    numbers = np.arange(ROWS)
    rows = pa.table({
        "id": [f"{n * 2_654_435_761 % 2**32:08x}" for n in numbers.tolist()],
        "user": pa.array(rng.integers(0, 5_000, ROWS)),
        "half": pa.array([None if n % 2 else n for n in numbers.tolist()], pa.int64()),
        "same": ["x"] * ROWS,
        "ok": [True] * ROWS,
    })  # fmt: skip
    properties = {"granule_rows": 1_000, "chunkset_rows": 4_000}
    state = build_table(store, "id string, user int64, half int64, same string, ok boolean", "id", rows, indexes=[], properties=properties)
    return store, state


def advice_on(store: RetriedStore, state: TableState, columns: Any, **built: float) -> Advice:
    apart = store.apart()
    return advise(Snapshot(store=apart, state=state), apart, columns, built)


def with_index(store: RetriedStore, state: TableState, index: PointIndex) -> TableState:
    """The version as it would be with the index, which is not committed: all tests share the table."""
    declared = define_index(index, state.definition.schema, state.definition.properties)
    infos = list(plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets())
    plan = BuildPlan(index=declared, definition=state.definition, keys=state.totals.rows)
    runs = build_here(store)(plan, infos)
    return replace(state, definition=replace(state.definition, point_indexes=(declared,)), runs=(*state.runs, *runs))


def measured(advice: Advice) -> tuple[Forecast, Measured]:
    (found,) = (forecast for forecast in advice.forecasts if forecast.measured is not None)
    assert found.measured is not None
    return found, found.measured


@pytest.mark.parametrize("columns", ["id", "user", "half"])
@pytest.mark.parametrize(
    "settings",
    [
        {"expected_keys": ROWS, "false_reads": 1.0},
        {"expected_keys": ROWS, "false_reads": 0.1},
        {},
        {"kind": "cuckoo", "bits": 8},
        {"kind": "cuckoo", "bits": 12},
        {"kind": "cuckoo", "bits": 16},
    ],
    ids=str,
)
def test_forecasts_are_near_what_is_measured(table: tuple[RetriedStore, TableState], columns: str, settings: dict[str, Any]) -> None:
    store, state = table
    advice = advice_on(store, with_index(store, state, PointIndex(columns, **settings)), columns, **{columns: 1.25})
    found, real = measured(advice)
    assert found.bits_per_key == pytest.approx(real.bits_per_key, rel=0.1)
    assert found.bytes == pytest.approx(real.bytes, rel=0.1)
    # A random value that meets a stored one by chance hits all granules of that one: so many at a time, and rarely.
    spread = math.sqrt(max(found.false_reads, 1 / PROBES) * advice.granules_per_value / PROBES)
    assert abs(found.false_reads - real.false_reads) <= 4 * spread
    assert real.requests <= 3
    assert real.build_seconds == 1.25
    assert found.build_seconds > 0


def test_the_sample_sees_how_values_repeat(table: tuple[RetriedStore, TableState]) -> None:
    store, state = table
    unique, repeated, half, same = (advice_on(store, state, column) for column in ("id", "user", "half", "same"))
    assert (unique.rows, unique.granules, unique.sampled_rows) == (ROWS, 160, 64_000)
    assert (unique.keys, unique.null_share, unique.granules_per_value) == (ROWS, 0.0, 1.0)
    # 1,000 draws of 5,000 users: a granule has 906 of them, and each is in 18% of all granules.
    assert repeated.keys == pytest.approx(160 * 5_000 * (1 - (1 - 1 / 5_000) ** 1_000), rel=0.02)
    assert repeated.granules_per_value == pytest.approx(160 * 0.1813, rel=0.1)
    assert half.keys == pytest.approx(ROWS / 2, rel=0.02)
    assert half.null_share == pytest.approx(0.5, abs=0.02)
    assert (same.keys, same.granules_per_value) == (160, 160.0)


def test_all_kinds_and_widths_are_shown(table: tuple[RetriedStore, TableState]) -> None:
    store, state = table
    advice = advice_on(store, state, "user")
    assert [(found.kind, found.granularity, found.width) for found in advice.forecasts] == [
        *(("postings", by, f"{reads} reads") for by in ("row_group", "file") for reads in ("1", "0.1", "0.01")),
        *(("cuckoo", "row_group", f"{bits} bits") for bits in (8, 12, 16, 24, 32)),
    ]
    fewer = [found.bits_per_key for found in advice.forecasts[:3]]
    assert fewer == sorted(fewer), "fewer reads in vain cost more bits"
    text = str(advice)
    assert text.splitlines()[0].startswith("user: ")
    assert len(text.splitlines()) == 2 + len(advice.forecasts)
    later = with_index(store, state, PointIndex("user"))
    assert len(str(advice_on(store, later, "user")).splitlines()) == 2 + len(advice.forecasts) + 2


def test_advice_is_the_same_each_time(table: tuple[RetriedStore, TableState]) -> None:
    store, state = table
    first, second = advice_on(store, state, ["user", "same"]), advice_on(store, state, ["user", "same"])
    assert first.columns == ("user", "same")
    assert (first.keys, first.granules_per_value) == (second.keys, second.granules_per_value)
    assert [found.bytes for found in first.forecasts] == [found.bytes for found in second.forecasts]


def test_an_empty_table_and_wrong_columns(table: tuple[RetriedStore, TableState]) -> None:
    store = open_store(StoreConfig(uri="memory://advise-empty"))
    empty = advice_on(store, build_table(store, "id string, n int64", "id", indexes=None), "id")
    assert (empty.rows, empty.keys, empty.granules) == (0, 0, 0)
    assert str(empty)
    for column, words in (("nobody", "names column 'nobody'"), ("ok", "of type boolean"), ([], "give a column's name")):
        with pytest.raises(InvalidError, match=words):
            advice_on(*table, column)
