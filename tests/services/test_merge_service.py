"""The merge service: live runs stay few, no answer changes, and neither crashes nor other writers can break it."""

import math
from collections.abc import Callable
from itertools import count

import pyarrow as pa
import pytest

from needlefish.config import StoreConfig
from needlefish.format.run import run_path
from needlefish.index.build import put_run
from needlefish.index.run_reader import RunReader
from needlefish.model.log import RunId, RunKind, RunRef, TableState
from needlefish.runtime import SYSTEM
from needlefish.services.merge import LEAST_RUNS, commit_merges, merge, plan_merges, run_merge, tidy
from needlefish.store import RetriedStore, Store, open_store
from needlefish.table.history import read_history
from needlefish.testing.faulty_store import Fault, FaultyStore, crash_everywhere, on
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table
from needlefish.timeline import Log, Proposal, read_newest, read_state_at

# What every append brings.
KINDS: tuple[RunKind, ...] = ("files", "column_stats", "bloom_filters")

_numbers = count()


@pytest.fixture
def store() -> RetriedStore:
    return fresh_store()


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://merge-service-{next(_numbers)}"))


def key(number: int) -> str:
    return f"{number * 2_654_435_761 % 2**32:08x}"


def rows(first: int, end: int) -> list[dict[str, object]]:
    return [{"id": key(number), "n": number} for number in range(first, end)]


def appended(store: Store, commits: int, each: int = 3, first: int = 0) -> TableState:
    state = build_table(store, "id string, n int64", "id")
    for number in range(commits):
        state = append_rows(store, state, rows(first + number * each, first + (number + 1) * each))
    return state


def numbers_in(store: Store, state: TableState) -> list[int]:
    return sorted(scan_table(store, state, columns=["n"])[0]["n"].to_pylist())


def find(store: RetriedStore, state: TableState, **values: object) -> list[dict[str, object]]:
    found, receipt = find_table(store, state, **values)
    assert not receipt.unreadable
    return list(found.to_pylist())


def test_two_hundred_appends_leave_a_handful_of_runs(store: RetriedStore) -> None:
    state = build_table(store, "id string, n int64", "id")
    most = 0
    for number in range(200):
        state = tidy(store, append_rows(store, state, rows(number * 3, number * 3 + 3)))
        most = max(most, *(len(state.runs_of(kind)) for kind in KINDS))
    assert most < LEAST_RUNS + math.log2(200), "eight young runs, and older ones that double in size"
    assert numbers_in(store, state) == list(range(600))
    for number in (0, 1, 17, 299, 300, 598, 599):
        assert find(store, state, id=key(number)) == [{"id": key(number), "n": number}]
        assert find(store, state, n=number) == [{"id": key(number), "n": number}]
    assert {kind: sum(run.records for run in state.runs_of(kind)) for kind in KINDS} == {
        "files": 200,
        "column_stats": 400,
        "bloom_filters": 200,
    }


def test_a_merge_rewrites_each_record_a_few_times_only(store: RetriedStore) -> None:
    """Otherwise commits would cost more the longer the table lives."""
    state = build_table(store, "id string, n int64", "id")
    rewritten = 0
    for number in range(200):
        before = {run.id for run in state.runs}
        state = tidy(store, append_rows(store, state, rows(number, number + 1)))
        rewritten += sum(run.records for run in state.runs_of("files") if run.id not in before and run.records > 1)
    assert 200 < rewritten <= 200 * math.log2(200), "3.4 times each, where merging all runs every time takes 14"


def run_ref(number: int, records: int, run_bytes: int = 1_000) -> RunRef:
    return RunRef(
        id=RunId(f"r{number}"), kind="files", bytes=run_bytes, header_bytes=100, header_checksum="", records=records, version=number
    )


@pytest.mark.parametrize(
    ("records", "taken"),
    [
        ([1] * 7, 0),
        ([1] * 8, 8),
        ([1] * 8 + [15], 9),
        ([1] * 8 + [16], 8),
        ([1] * 7 + [14], 0),
        ([1] * 7 + [13], 8),
        ([1] * 8 + [8, 100], 9),
        ([100] + [1] * 7 + [50, 500], 9),
        ([1, 100] * 4 + [2_000], 8),
        ([1] * 40, 40),
    ],
)
def test_the_newest_join_until_the_next_is_twice_as_large(store: RetriedStore, records: list[int], taken: int) -> None:
    state = build_table(store, "id string", "id")
    runs = tuple(run_ref(len(records) - number, size) for number, size in enumerate(records))
    plans = plan_merges(TableState(format=1, version=99, timestamp_ms=0, definition=state.definition, runs=runs))
    assert [len(plan.runs) for plan in plans] == ([taken] if taken else [])
    assert [plan.oldest for plan in plans] == ([taken == len(records)] if taken else [])


def test_runs_too_large_for_one_put_stay(store: RetriedStore) -> None:
    state = build_table(store, "id string", "id")
    runs = (*(run_ref(20 - number, 1) for number in range(9)), run_ref(1, 1, run_bytes=2**28))
    (plan,) = plan_merges(TableState(format=1, version=99, timestamp_ms=0, definition=state.definition, runs=runs))
    assert (len(plan.runs), plan.oldest) == (9, False)


def test_old_versions_keep_their_runs(store: RetriedStore) -> None:
    before = appended(store, 9)
    after = merge(store, before)
    assert [len(after.runs_of(kind)) for kind in KINDS] == [1, 1, 1]
    # The claim and the merge.
    assert (after.version, after.totals) == (before.version + 2, before.totals)
    assert [entry.action for entry in read_history(store, after, limit=2, steps=True)] == ["merge", "claim"]
    assert numbers_in(store, before) == numbers_in(store, after) == list(range(27))
    assert read_state_at(store, before.version, read_newest(store)) == before


def test_an_append_during_a_merge_stays_and_wins(store: RetriedStore) -> None:
    base = appended(store, 8)
    done = [run_merge(store, base, plan) for plan in plan_merges(base)]
    appended_state = append_rows(store, base, rows(24, 27))
    after = commit_merges(store, base, done)
    assert after is not None
    newest_files, merged_files = after.runs_of("files")
    assert newest_files.id == appended_state.runs_of("files")[0].id, "the append is younger, though it came to the log first"
    assert (newest_files.version, merged_files.version) == (9, 8)
    assert numbers_in(store, after) == list(range(27))
    for number in range(27):
        assert find(store, after, id=key(number)) == [{"id": key(number), "n": number}]


def test_a_tombstone_that_lands_during_a_merge_is_younger_than_the_merged_run(store: RetriedStore) -> None:
    """Were the merged run stamped with the version that brings it, the files would rise from the dead."""
    base = appended(store, 8)
    done = [run_merge(store, base, plan) for plan in plan_merges(base)]
    victim = base.runs_of("files")[-1]
    remove(store, base, victim)
    after = commit_merges(store, base, done)
    assert after is not None
    assert numbers_in(store, after) == list(range(3, 24))
    again = commit_merges(store, after, [run_merge(store, after, plan) for plan in plan_merges(after)])
    assert again is None or numbers_in(store, again) == list(range(3, 24))


def remove(store: RetriedStore, state: TableState, run: RunRef) -> None:
    """A commit that deletes every file of a run."""
    records = pa.Table.from_batches(list(RunReader(run).scan(store)))
    deleted = records.set_column(records.schema.get_field_index("is_deleted"), "is_deleted", pa.array([True] * records.num_rows))
    ref = put_run(store, "files", deleted, SYSTEM)
    Log(store, "test").append(state, lambda _: Proposal(action="append", runs_added=(ref,)))


def test_the_second_of_two_merges_gives_up(store: RetriedStore) -> None:
    base = appended(store, 8)
    first, second = ([run_merge(store, base, plan) for plan in plan_merges(base)] for _ in range(2))
    after = commit_merges(store, base, first)
    assert after is not None
    assert commit_merges(store, base, second) is None
    assert read_newest(store) == after
    assert numbers_in(store, after) == list(range(24))


def test_what_still_stands_is_merged_when_one_kind_is_gone(store: RetriedStore) -> None:
    base = appended(store, 8)
    done = [run_merge(store, base, plan) for plan in plan_merges(base)]
    gone = base.runs_of("column_stats")[3]
    Log(store, "test").append(base, lambda _: Proposal(action="rebuild", runs_removed=(gone.id,)))
    after = commit_merges(store, base, done)
    assert after is not None
    assert [len(after.runs_of(kind)) for kind in ("files", "column_stats", "bloom_filters")] == [1, 7, 1]
    assert numbers_in(store, after) == list(range(24))


def test_a_crash_at_any_call_leaves_orphans_only() -> None:
    template = fresh_store()
    appended(template, 8)

    def make() -> Store:
        fresh = fresh_store()
        for found in template.list():
            fresh.put(found.path, template.get(found.path))
        return fresh

    points = 0
    for point in crash_everywhere(make, lambda store: merge(store, read_newest(store))):
        points += 1
        state = read_newest(point.store)
        assert [entry.action for entry in read_history(point.store, state, 1)] in (["append"], ["merge"]), f"{point}"
        assert numbers_in(point.store, state) == list(range(24)), f"{point}"
        after = merge(point.store, state)
        assert [len(after.runs_of(kind)) for kind in KINDS] == [1, 1, 1], f"{point}"
        assert numbers_in(point.store, after) == list(range(24)), f"{point}"
    assert points >= 2 * (3 * 8 + 4), "24 runs, three puts and an entry"


@pytest.mark.parametrize("fault", [Fault.LOST_RESPONSE, Fault.UNAVAILABLE, Fault.FLIPPED_READ, Fault.TORN_READ])
@pytest.mark.parametrize("kind", ["get_range", "put", "put_if_absent"])
def test_a_merge_that_fails_never_fails_the_append(store: RetriedStore, fault: Fault, kind: str) -> None:
    base = appended(store, 8)
    after = tidy(FaultyStore(store, on(kind, [fault])), base)  # type: ignore[arg-type]
    assert [entry.action for entry in read_history(store, after)] in (8 * ["append"] + ["create"], ["merge"] + 8 * ["append"] + ["create"])
    assert numbers_in(store, after) == list(range(24))
    assert numbers_in(store, read_newest(store)) == list(range(24))


def damage(store: RetriedStore, run: RunRef) -> None:
    store.put(run_path(run.kind, run.id), b"")


@pytest.mark.parametrize("harm", [damage, lambda store, run: store.delete([run_path(run.kind, run.id)])])
def test_a_lost_run_is_not_merged_away_and_keeps_no_other_kind_waiting(
    store: RetriedStore, harm: Callable[[RetriedStore, RunRef], None]
) -> None:
    base = appended(store, 8)
    harm(store, base.runs_of("column_stats")[2])
    after = tidy(store, base)
    assert after == read_newest(store)
    assert {kind: len(after.runs_of(kind)) for kind in KINDS} == {"files": 1, "column_stats": 8, "bloom_filters": 1}
    assert numbers_in(store, after) == list(range(24))
