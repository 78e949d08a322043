"""`explain`: every file is either left or ruled out by one reason, and the reasons are the right ones."""

import pytest

import needlefish as nf
from needlefish.format.run import path_of
from needlefish.model.log import TableState
from needlefish.store import RetriedStore
from needlefish.table.snapshot import Snapshot
from needlefish.table.source import Explanation, explain_source
from needlefish.testing.tables import append_rows, build_table

FILES = 12
REASONS = ("partition", "key", "statistics", "index", "filters")


@pytest.fixture
def state(store: RetriedStore) -> TableState:
    """Each day has three files of ascending `n`; `id` is indexed, `note` has filters, `k` leads the key."""
    schema = "k int64, id string, n int64, note string, day string"
    found: TableState | None = None
    for turn in range(3):
        rows = [
            {
                "k": day * 100 + turn * 10 + at,
                "id": f"{turn}-{day}-{at}",
                "n": turn * 10 + at,
                "note": f"note {turn} {day} {at}",
                "day": f"d{day}",
            }
            for day in range(4)
            for at in range(10)
        ]
        if found is None:
            indexes = [nf.PointIndex("id")]
            found = build_table(store, schema, ["k", "id"], rows, partition_by=["day"], indexes=indexes, bloom_columns=["note"])
        else:
            found = append_rows(store, found, rows)
    assert found is not None
    assert found.totals.files == FILES
    return found


def explained(store: RetriedStore, state: TableState, where: str | None, **partitions: object) -> Explanation:
    apart = store.apart()
    found = explain_source(Snapshot(store=apart, state=state), where, partitions or None, apart.meter)
    pruned = sum(getattr(found, f"files_pruned_by_{reason}") for reason in REASONS)
    assert pruned + found.files_left == found.files_total == FILES
    return found


@pytest.mark.parametrize(
    ("where", "reason", "left"),
    [
        (None, None, 12),
        ("day = 'd1'", "partition", 3),
        ("day > 'd1'", "partition", 6),
        ("n >= 25", "statistics", 4),
        ("n < 0", "statistics", 0),
        ("n is null", "statistics", 0),
        ("n in (3, 14)", "statistics", 8),
        ("note like 'note 2%'", "statistics", 4),
        ("k >= 300", "key", 3),
        ("id = '1-2-3'", "index", 1),
        ("id in ('1-2-3', '0-0-0', 'absent')", "index", 2),
    ],
)
def test_the_reason_is_named(store: RetriedStore, state: TableState, where: str | None, reason: str | None, left: int) -> None:
    found = explained(store, state, where)
    assert found.files_left == left
    assert [name for name in REASONS if getattr(found, f"files_pruned_by_{name}")] == ([reason] if reason else [])


def test_filters_rule_out_what_ranges_leave(store: RetriedStore, state: TableState) -> None:
    found = explained(store, state, "note = 'note 1 2 3x'")
    assert found.files_pruned_by_filters + found.files_pruned_by_statistics == FILES
    assert found.files_pruned_by_filters > 0
    assert found.chosen_by == "metadata: files, ranges, filters"


def test_reasons_add_up_when_there_are_several(store: RetriedStore, state: TableState) -> None:
    found = explained(store, state, "n >= 25 and k < 150", day=["d0", "d1"])
    assert (found.files_pruned_by_partition, found.files_left) == (6, 2)
    assert found.files_pruned_by_statistics + found.files_pruned_by_key == 4
    looked_up = explained(store, state, "id = '1-2-3'", day="d0")
    assert looked_up.files_left == 0


def test_it_reads_well(store: RetriedStore, state: TableState) -> None:
    text = str(explained(store, state, "id = '1-2-3' and n > 0"))
    assert "files chosen by: postings 'id', 3 runs" in text
    assert "\n          12 files\n         -11 ruled out by point index\n           1 left, with 1 granules of " in text


def test_statistics_that_are_gone_rule_nothing_out(store: RetriedStore, state: TableState) -> None:
    for run in state.runs_of("column_stats")[:2]:
        store.delete([path_of(run)])
    found = explained(store, state, "n >= 25")
    assert 4 <= found.files_left < FILES
    assert len(found.unreadable) == 2
    assert all(text in str(found) for text in found.unreadable)
