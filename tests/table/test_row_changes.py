"""Commits of rows and skips together: one entry, sums that stay right, batches that count once, and what a crash leaves."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError
from needlefish.format.skips_record import Skips, skips_in
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import Batch, TableState, Totals
from needlefish.store import RetriedStore, Store, open_store
from needlefish.table.commit import commit_append
from needlefish.table.history import read_history
from needlefish.table.row_changes import Committed, RowChanges, commit_changes
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.faulty_store import crash_everywhere
from needlefish.testing.tables import append_rows, build_table, scan_table, skip_rows, write_rows
from needlefish.timeline import Log, Proposal, read_newest

_numbers = count()


def rows_of(numbers: Iterable[int], value: str = "old") -> list[dict[str, Any]]:
    return [{"id": number, "s": value} for number in numbers]


def build(store: Store) -> TableState:
    return build_table(store, "id int32, s string", "id", rows_of(range(12)), properties={"chunkset_rows": 4})


def infos(store: Store, state: TableState) -> list[ChunksetInfo]:
    return sorted(plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets(), key=lambda info: info.first_key)


def shown(store: Store, state: TableState) -> dict[int, str]:
    found = scan_table(store, state)[0].to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["s"] for row in found}


def upsert_of_first(store: Store, state: TableState, batch: Batch | None = None, heal: Any = None) -> Committed:
    """Rows 0 and 1 anew, with the skips of the old ones."""
    written = write_rows(store, state, rows_of([0, 1], "new"))
    skips = (skips_in(infos(store, state)[0], [0, 1]),)
    return commit_changes(store, state, RowChanges(action="upsert", written=written, skips=skips, batch=batch), heal=heal)


def test_rows_and_skips_become_true_in_one_entry(store: RetriedStore) -> None:
    state = build(store)
    done = upsert_of_first(store, state)
    assert (done.state.version, done.skipped, done.repeated) == (2, 2, False)
    assert shown(store, done.state) == {0: "new", 1: "new"} | dict.fromkeys(range(2, 12), "old")
    assert shown(store, state) == dict.fromkeys(range(12), "old")
    (entry, *_) = read_history(store, done.state)
    assert (entry.action, entry.rows, entry.skipped, entry.prev_max, entry.batch) == ("upsert", 2, 2, 1, None)
    assert (done.state.totals.rows, done.state.totals.visible_rows) == (14, 12)
    assert [run.version for run in done.state.runs_of("skips")] == [2]


def test_a_delete_writes_no_data_and_one_run(store: RetriedStore) -> None:
    state = build(store)
    skips = (skips_in(infos(store, state)[0], [3]), skips_in(infos(store, state)[2], [0]))
    apart = store.apart()
    done = commit_changes(apart, state, RowChanges(action="delete", skips=skips))
    usage = apart.meter.snapshot()
    # The run and the hint; the entry; the look at the entry that does not exist yet and at the one before it, which a clean would
    # have removed together with those behind it. No run of skips is there to be read.
    assert (usage.put.requests, usage.put_if_absent.requests, usage.get.requests, usage.requests) == (2, 1, 2, 5)
    assert sorted(shown(store, done.state)) == [0, 1, 2, 4, 5, 6, 7, 9, 10, 11]
    assert done.state.totals == replace(state.totals, skipped=2)


def test_rows_that_are_hidden_already_do_not_count_twice(store: RetriedStore) -> None:
    state = build(store)
    first, second, _ = infos(store, state)
    one = commit_changes(store, state, RowChanges(action="delete", skips=(skips_in(first, [0, 1]),)))
    # Prepared under the same version, so that it does not know of the first.
    two = commit_changes(
        store, state, RowChanges(action="delete", skips=(skips_in(first, [1, 2]), skips_in(second, [0]), skips_in(second, [0, 3])))
    )
    assert (one.skipped, two.skipped) == (2, 3)
    assert two.state.totals.visible_rows == len(shown(store, two.state)) == 7


def test_changes_of_nothing_make_no_version_unless_they_are_a_batch(store: RetriedStore) -> None:
    state = build(store)
    assert commit_changes(store, state, RowChanges(action="delete")).state == state == read_newest(store)
    done = commit_changes(store, state, RowChanges(action="upsert", batch=Batch(application="etl", number=4)))
    assert (done.state.version, done.state.last_batch("etl"), done.state.runs) == (2, 4, state.runs)


@pytest.mark.parametrize("number", [3, 4])
def test_a_batch_that_is_not_above_the_last_one_does_nothing(store: RetriedStore, number: int) -> None:
    state = upsert_of_first(store, build(store), Batch(application="etl", number=4)).state
    apart = store.apart()
    again = commit_changes(
        apart,
        state,
        RowChanges(action="delete", skips=(skips_in(infos(store, state)[1], [0]),), batch=Batch(application="etl", number=number)),
    )
    assert again == Committed(state=state, repeated=True)
    assert apart.meter.snapshot().requests == 0
    other = commit_changes(store, state, RowChanges(action="upsert", batch=Batch(application="feed", number=number)))
    assert (other.repeated, other.state.version) == (False, 3)


def test_a_batch_that_somebody_else_committed_meanwhile_is_seen(store: RetriedStore) -> None:
    state = build(store)
    first = upsert_of_first(store, state, Batch(application="etl", number=4))
    again = upsert_of_first(store, state, Batch(application="etl", number=4))
    assert (again.repeated, again.state, read_newest(store)) == (True, first.state, first.state)


def test_healing_sees_both_states_and_adds_its_skips(store: RetriedStore) -> None:
    state = build(store)
    other = upsert_of_first(store, state).state
    calls: list[tuple[int, int]] = []

    def heal(base: TableState, newest: TableState) -> list[Skips]:
        calls.append((base.version, newest.version))
        known = {info.path for info in infos(store, base)}
        return [skips_in(info, range(info.rows)) for info in infos(store, newest) if info.path not in known]

    done = upsert_of_first(store, state, heal=heal)
    assert calls == [(1, 2)]
    assert shown(store, done.state) == {0: "new", 1: "new"} | dict.fromkeys(range(2, 12), "old")
    # What healing adds is in the commit's one run.
    assert (done.skipped, done.state.totals.skipped, len(done.state.runs_of("skips"))) == (2, 4, 2)
    assert [entry.prev_max for entry in read_history(store, done.state)] == [2, 1, None, None]
    assert shown(store, other) == shown(store, done.state)
    assert not verify_table(Snapshot(store=store, state=done.state)).problems


def test_a_race_between_healing_and_the_entry_heals_again(store: RetriedStore) -> None:
    state = build(store)
    seen: list[int] = []

    def heal(base: TableState, newest: TableState) -> list[Skips]:
        seen.append(newest.version)
        if len(seen) == 1:
            append_rows(store, newest, rows_of([20]))
        return [skips_in(infos(store, newest)[-1], [0])]

    done = upsert_of_first(store, state, heal=heal)
    assert seen == [1, 2]
    assert (done.state.version, done.skipped) == (3, 3)
    assert 20 not in shown(store, done.state)
    assert read_history(store, done.state)[0].prev_max == 2


def test_a_table_redefined_in_between_is_a_conflict(store: RetriedStore) -> None:
    state = build(store)
    other = replace(state.definition, properties=replace(state.definition.properties, granule_rows=5))
    Log(store, "test").append(state, lambda _: Proposal(action="append", definition=other))
    with pytest.raises(ConflictError, match="was redefined"):
        upsert_of_first(store, state)


def test_two_tables_of_rows_written_under_one_version_both_land(store: RetriedStore) -> None:
    state = build(store)
    appended = write_rows(store, state, rows_of([30]))
    upsert_of_first(store, state)
    after = commit_append(store, state, appended)
    assert shown(store, after)[30] == "old"
    assert after.totals == Totals(rows=15, files=5, bytes=after.totals.bytes, skipped=2)


@pytest.mark.parametrize("batch", [None, Batch(application="etl", number=1)])
def test_dying_at_any_call_leaves_the_state_before_or_after(batch: Batch | None) -> None:
    before, after = dict.fromkeys(range(12), "old"), {0: "new", 1: "new"} | dict.fromkeys(range(2, 12), "old")
    made: list[TableState] = []

    def make() -> Store:
        store = open_store(StoreConfig(uri=f"memory://row-changes-{next(_numbers)}"))
        made.append(build(store))
        return store

    outcomes = set()
    for point in crash_everywhere(make, lambda store: upsert_of_first(store, made[-1], batch)):
        state = read_newest(point.store)
        found = shown(point.store, state)
        assert found in (before, after)
        assert state.totals.visible_rows == 12
        outcomes.add(found == after)
        if batch is not None:
            again = upsert_of_first(point.store, state, batch)
            assert again.repeated == (found == after)
            assert shown(point.store, again.state) == after
    assert outcomes == {True, False}


def test_hiding_rows_of_rows_that_replaced_others(store: RetriedStore) -> None:
    state = build(store)
    for round_number in range(5):
        state = skip_rows(store, state, lambda row: row["id"] in (2, 5), rows=rows_of([2, 5], f"v{round_number}"))
    assert shown(store, state) == dict.fromkeys(range(12), "old") | {2: "v4", 5: "v4"}
    assert (state.totals.skipped, state.totals.visible_rows) == (10, 12)
