"""A real compaction and real clusterings on Spark: the same rows, fewer and better files."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.services.rewrite import RewritePlan, commit_rewrite, plan_clustering, plan_compaction
from needlefish.spark.rewrite import written_on_spark
from needlefish.store import RetriedStore, open_store
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table

OWNER = "0123456789abcdef"
# Every type that Spark has under another name, and those that order a Z-curve.
SCHEMA = "id string, host string, n int64, u uint64, d decimal(12,2), at timestamp, f double"


def row(number: int) -> dict[str, Any]:
    return {
        "id": f"k{number * 7919 % 10_000:05}",
        "host": "ab"[number % 2],
        "n": number * 31 % 1000,
        "u": 2**64 - 1 - number,
        "d": None if number % 10 == 0 else Decimal(number % 300) / 4,
        "at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number),
        "f": float("nan") if number % 50 == 0 else number % 77 - 30.5,
    }


@pytest.fixture
def store(uri: str) -> RetriedStore:
    return open_store(StoreConfig(uri=uri))


def filled(store: RetriedStore) -> TableState:
    """Six appends of 200 rows to two partitions, and 240 rows replaced."""
    properties = {"granule_rows": 50, "chunkset_rows": 400}
    indexes = [nf.PointIndex("n"), nf.PointIndex("host", kind="cuckoo")]
    state = build_table(store, SCHEMA, "id", partition_by="host", indexes=indexes, properties=properties)
    for first in range(0, 1200, 200):
        state = append_rows(store, state, [row(number) for number in range(first, first + 200)])
    return upsert_table(store, state, [{**row(number), "n": -number} for number in range(0, 1200, 5)])[0]


def texts(store: RetriedStore, state: TableState) -> list[str]:
    """All rows as texts, since NaN does not equal itself."""
    return sorted(str(found) for found in scan_table(store, state)[0].to_pylist())


def rewritten(spark: SparkSession, store: RetriedStore, state: TableState, plan: RewritePlan) -> TableState:
    written = written_on_spark(spark, store, state, plan, OWNER)
    assert all(entry.info.id.startswith(OWNER) for entry in written.entries)
    assert all(run.id.startswith(OWNER) for run in written.runs)
    return commit_rewrite(store, state, plan, written)


def check(store: RetriedStore, before: TableState, after: TableState) -> None:
    assert texts(store, after) == texts(store, before)
    assert after.totals.visible_rows == before.totals.visible_rows
    assert verify_table(Snapshot(store=store, state=after), data=True).problems == ()
    for number in (0, 1, 2, 5, 777, 1199):
        wanted = row(number)
        for values in ({"id": wanted["id"]}, {"n": -number}, {"n": wanted["n"]}):
            one, other = (sorted(str(found) for found in find_table(store, state, **values)[0].to_pylist()) for state in (before, after))
            assert one == other


def test_a_compaction(spark: SparkSession, store: RetriedStore) -> None:
    before = filled(store)
    plan = plan_compaction(Snapshot(store=store, state=before))
    assert plan is not None
    after = rewritten(spark, store, before, plan)
    check(store, before, after)
    assert (before.totals.files, after.totals.files) == (14, 4)
    assert (before.totals.skipped, after.totals.skipped) == (240, 0)


@pytest.mark.parametrize("order", [{}, {"by": ["n"]}, {"by": ["n", "d"], "zorder": True}, {"by": ["f", "u", "at", "host"], "zorder": True}])
def test_a_clustering(spark: SparkSession, store: RetriedStore, order: dict[str, Any]) -> None:
    before = filled(store)
    snapshot = Snapshot(store=store, state=before)
    plan = plan_clustering(snapshot, **order)
    assert plan is not None
    after = rewritten(spark, store, before, plan)
    check(store, before, after)
    infos = list(plan_scan(Snapshot(store=store, state=after), ScanRequest()).chunksets())
    assert {info.order for info in infos} == {plan.order}
    assert len(infos) < before.totals.files
    assert plan_clustering(Snapshot(store=store, state=after), **order) is None, "nothing is left to be sorted"


def test_clustered_rows_are_found_by_less_reading(spark: SparkSession, store: RetriedStore) -> None:
    before = filled(store)
    plan = plan_clustering(Snapshot(store=store, state=before), ["n"])
    assert plan is not None
    after = rewritten(spark, store, before, plan)
    (rows, one), (same, other) = (scan_table(store, state, where="n BETWEEN 100 AND 120") for state in (before, after))
    assert sorted(rows["id"].to_pylist()) == sorted(same["id"].to_pylist())
    assert other.granules_read <= one.granules_read / 4
