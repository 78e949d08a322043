"""Writers that meet, and batches in an awkward order: small cases in which a row could be lost or counted twice."""

from dataclasses import replace
from typing import Any

import pytest

from needlefish.format.log_entry import log_path
from needlefish.model.log import TableState
from needlefish.store import RetriedStore
from needlefish.table.history import read_history
from needlefish.table.snapshot import Snapshot
from needlefish.table.upsert import compare
from needlefish.table.upsert.compare import MarkTask, ProbeKeysTask, compare_here
from needlefish.table.upsert.marks import marks_of
from needlefish.table.upsert.plan import ComparePlan
from needlefish.table.upsert.sources import Source, source_rows
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.tables import append_rows, build_table, scan_table, write_rows
from needlefish.timeline import Log, Proposal

NAN = float("nan")
Row = dict[str, Any]


def build(store: RetriedStore, rows: list[Row], **options: Any) -> TableState:
    return build_table(store, "id int64, host string, n double, s string", "id", rows, **options)


def row(id_: int, n: float | None, s: str, host: str = "a") -> Row:
    return {"id": id_, "host": host, "n": n, "s": s}


def shown(store: RetriedStore, state: TableState) -> list[str]:
    assert not verify_table(Snapshot(store=store, state=state)).problems
    return sorted(scan_table(store, state, columns=["s"])[0]["s"].to_pylist())


@pytest.mark.parametrize(("between", "expected"), [(3, ["mine"]), (5, ["mine"]), (7, ["theirs"])])
def test_what_outranked_a_row_was_replaced_meanwhile(store: RetriedStore, between: float, expected: list[str]) -> None:
    """The row loses against 10, which somebody replaces without asking for an order: the key must not vanish with both."""
    base = build(store, [row(1, 10, "old"), row(2, 0, "other")])
    upsert_table(store, base, [row(1, between, "theirs")])
    state, result = upsert_table(store, base, [row(1, 5, "mine")], order_by="n")
    assert shown(store, state) == sorted([*expected, "other"])
    assert (result.replaced, result.late, result.healed) == ((1, 0, 1) if expected == ["mine"] else (0, 1, 1))


def test_what_outranked_a_row_was_deleted_meanwhile(store: RetriedStore) -> None:
    base = build(store, [row(1, 10, "old"), row(2, 10, "still there")])
    delete_table(store, base, [{"id": 1}])
    state, result = upsert_table(store, base, [row(1, 5, "mine"), row(2, 5, "late")], order_by="n")
    assert shown(store, state) == ["mine", "still there"]
    assert (result.inserted, result.replaced, result.late, result.healed) == (1, 0, 1, 0)


@pytest.mark.parametrize(
    ("stored", "given", "expected"),
    [(NAN, 5, "old"), (5, NAN, "new"), (NAN, NAN, "new"), (NAN, None, "old"), (None, NAN, "new"), (None, None, "new"), (5, 5, "new")],
)
def test_order_among_what_is_no_number(store: RetriedStore, stored: float | None, given: float | None, expected: str) -> None:
    """In a batch, in the table and between writers alike: nothing is older than anything, NaN newer than any number."""
    at_once, _ = upsert_table(store, build(store, []), [row(1, stored, "old"), row(1, given, "new")], order_by="n")
    assert shown(store, at_once) == [expected]
    state, _ = upsert_table(store, at_once, [row(2, stored, "old")])
    after, _ = upsert_table(store, state, [row(2, given, "new")], order_by="n")
    assert shown(store, after) == sorted([expected, expected])
    upsert_table(store, after, [row(3, stored, "old")])
    forked, _ = upsert_table(store, after, [row(3, given, "new")], order_by="n")
    assert shown(store, forked) == sorted([expected] * 3)


def test_deletes_in_a_batch_find_global_keys_in_any_partition(store: RetriedStore) -> None:
    """Such keys come sorted by the partition that the batch names, and lie in others."""
    rows = [row(id_, 0, str(id_), host="abc"[id_ % 3]) for id_ in range(30)]
    base = build(store, rows, partition_by="host", properties={"global_keys": True, "chunkset_rows": 4})
    gone = [found | {"host": "abc"[(found["id"] + 1) % 3], "gone": found["id"] % 4 != 0} for found in rows]
    state, result = upsert_table(store, base, gone, deleted_by="gone")
    assert (result.deleted, result.replaced) == (22, 8)
    assert shown(store, state) == sorted(str(id_) for id_ in range(0, 30, 4))


def test_keys_that_are_sent_and_marks_that_are_done_do_not_mix(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without filters, a source that may be in too many files reads some at once, while others send their keys there."""
    monkeypatch.setattr(compare, "MOST_SENT", 1)
    state = build(store, [row(id_, 0, "even") for id_ in range(0, 62, 2)])
    state = append_rows(store, state, [row(id_, 0, "odd") for id_ in range(31, 101, 2)])
    blind = replace(state, runs=tuple(run for run in state.runs if run.kind != "bloom_filters"))
    written = [write_rows(store, state, [row(id_, 1, "new") for id_ in ids]).entries for ids in ([2, 4], [91, 93], [31, 32, 33, 34])]
    sources = [Source(written=entry.info) for entries in written for entry in entries]
    plan = ComparePlan(state=blind, store=store.config)
    assert sum(len(one.rows) for one in compare_here(store, sources, plan).skips) == 8
    parcels = sorted(ProbeKeysTask(plan=plan)(source_rows(sources).to_batches()), key=lambda batch: str(batch["file"][0]))
    assert sum(len(one.rows) for one in marks_of(MarkTask(plan=plan)(parcels)).skips) == 8


def test_a_delete_is_no_row_that_a_later_one_could_lose_against(store: RetriedStore) -> None:
    state, _ = upsert_table(store, build(store, [row(1, 9, "old")]), [row(1, 10, "") | {"gone": True}], order_by="n", deleted_by="gone")
    assert shown(store, state) == []
    state, result = upsert_table(store, state, [row(1, 3, "back")], order_by="n")
    assert (shown(store, state), result.inserted) == (["back"], 1)


def test_a_late_delete_deletes_nothing(store: RetriedStore) -> None:
    base = build(store, [row(1, 9, "old")])
    state, result = upsert_table(store, base, [row(1, 8, "") | {"gone": True}], order_by="n", deleted_by="gone")
    assert (shown(store, state), result.deleted, state.totals) == (["old"], 0, base.totals)
    assert read_history(store, state)[0].version == base.version


def test_lineage_is_recorded_shown_and_checked(store: RetriedStore) -> None:
    base = build(store, [row(1, 0, "old")])
    upsert_table(store, base, [row(2, 0, "theirs")])
    state, _ = upsert_table(store, base, [row(3, 0, "mine")])
    # Written under version 1 and healed up to the last entry before its own: the other's commit, and its own claim.
    assert [(entry.version, entry.prev_max) for entry in read_history(store, state)] == [(5, 4), (3, 2), (1, None), (0, None)]
    forged = Log(store, "test").append(state, lambda _: Proposal(action="upsert", prev_max=9))
    (problem,) = verify_table(Snapshot(store=store, state=forged)).problems
    assert (problem.object, "compared against version 9" in problem.what) == (log_path(6), True)
