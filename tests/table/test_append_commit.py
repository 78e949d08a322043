"""Commits of chunksets, what they leave behind when they fail, and the versions one can go back to."""

from dataclasses import replace
from itertools import count

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, InvalidError
from needlefish.format.log_entry import log_path
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import RetriedStore, Store, open_store
from needlefish.table.commit import commit_append, totals_of
from needlefish.table.history import read_history
from needlefish.table.snapshot import RunReaders, Snapshot
from needlefish.table.task import Written
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import crash_everywhere
from needlefish.testing.tables import append_rows, build_table, scan_table, write_rows
from needlefish.timeline import Log, Proposal, Start, read_newest, read_state_at, working
from needlefish.version import WRITER

_numbers = count()


def _rows(first: int, end: int) -> list[dict[str, object]]:
    return [{"id": number, "s": f"s{number}"} for number in range(first, end)]


def _build(store: Store, rows: int = 10) -> TableState:
    return build_table(store, "id int32, s string", "id", _rows(0, rows), properties={"chunkset_rows": 4})


def _ids(store: Store, state: TableState) -> list[int]:
    return sorted(scan_table(store, state, columns=["id"])[0]["id"].to_pylist())


def test_a_commit_makes_all_its_chunksets_true_at_once(store: RetriedStore) -> None:
    state = _build(store)
    written = write_rows(store, state, _rows(10, 20))
    assert _ids(store, read_newest(store)) == list(range(10))
    after = commit_append(store, state, written)
    assert _ids(store, read_newest(store)) == list(range(20))
    assert (after.version, after.totals) == (2, totals_of([entry.info for entry in written.entries]).plus(state.totals))
    assert after.totals.files == 6
    assert sorted(run.kind for run in after.runs) == sorted(2 * ["files", "column_stats", "bloom_filters"])


def test_a_commit_costs_two_runs_and_one_entry(store: RetriedStore) -> None:
    state = _build(store)
    written = write_rows(store, state, _rows(10, 20))
    apart = store.apart()
    commit_append(apart, state, written)
    usage = apart.meter.snapshot()
    # The runs of files and statistics and the hint; the entry; the looks at the entry that does not exist yet and at the last one.
    assert (usage.put.requests, usage.put_if_absent.requests, usage.get.requests, usage.requests) == (3, 1, 2, 6)


def test_two_appends_written_under_the_same_version_both_land(store: RetriedStore) -> None:
    state = _build(store)
    left, right = write_rows(store, state, _rows(10, 15)), write_rows(store, state, _rows(15, 20))
    commit_append(store, state, left)
    after = commit_append(store, state, right)
    assert after.version == 3
    assert _ids(store, after) == list(range(20))


def test_a_table_redefined_in_between_is_a_conflict(store: RetriedStore) -> None:
    state = _build(store)
    written = write_rows(store, state, _rows(10, 12))
    other = replace(state.definition, properties=replace(state.definition.properties, granule_rows=5))
    newest = Log(store, "test").append(state, lambda _: Proposal(action="append", definition=other))
    with pytest.raises(ConflictError, match="was redefined between version 1 and 2; open it again and repeat the write"):
        commit_append(store, state, written)
    assert read_newest(store) == newest


def test_an_empty_commit_is_a_version_without_rows(store: RetriedStore) -> None:
    state = _build(store)
    after = commit_append(store, state, Written(entries=(), runs=()))
    assert (after.version, after.totals) == (2, state.totals)
    assert _ids(store, after) == list(range(10))


def test_a_table_without_rows_scans_to_nothing(store: RetriedStore) -> None:
    found, receipt = scan_table(store, _build(store, rows=0), where="s = 'x'")
    assert found.to_pylist() == []
    assert found.schema.names == ["id", "s"]
    assert (receipt.files_total, receipt.files_listed, receipt.version) == (0, 0, 0)


def test_dying_at_any_call_of_an_append_leaves_the_rows_before_or_after() -> None:
    made: list[TableState] = []

    def make() -> Store:
        store = open_store(StoreConfig(uri=f"memory://table-crash-{next(_numbers)}"))
        made.append(_build(store))
        return store

    outcomes = set()
    for point in crash_everywhere(make, lambda store: append_rows(store, made[-1], _rows(10, 20))):
        found = _ids(point.store, read_newest(point.store))
        assert found in (list(range(10)), list(range(20)))
        outcomes.add((point.number, len(found)))
        after = append_rows(point.store, read_newest(point.store), _rows(20, 25))
        assert _ids(point.store, after) == [*found, *range(20, 25)]
    # Three data files, the three runs, the probe, a look at the last entry, the entry, the hint.
    assert {number for number, _ in outcomes} == set(range(1, 11))
    assert {rows for _, rows in outcomes} == {10, 20}


def test_a_snapshot_stays_on_its_version(store: RetriedStore) -> None:
    first = _build(store)
    readers = RunReaders()
    old = Snapshot(store=store, state=first, readers=readers)
    second = append_rows(store, first, _rows(10, 20))
    new = Snapshot(store=store, state=second, readers=readers)
    assert len(new.runs("files")) == 2
    assert len(old.runs("files")) == 1
    assert _ids(store, first) == list(range(10))
    assert _ids(store, read_state_at(store, 1, read_newest(store))) == list(range(10))
    assert _ids(store, read_state_at(store, 0, read_newest(store))) == []
    # A run is immutable, so that its reader and its header are shared between versions.
    assert new.runs("files")[0] is not new.runs("files")[1]
    assert new.runs("files")[1] is readers.metadata.of(second, "files")[1]


def test_history_tells_what_each_version_brought(store: RetriedStore) -> None:
    clock = FakeClock(start_ms=1_000)
    runtime = Runtime(clock=clock)
    state = build_table(store, "id int32", "id", [{"id": 1}], runtime=runtime)
    clock.advance(5)
    state = append_rows(store, state, [{"id": 2}, {"id": 3}], runtime)
    shown = read_history(store, state)
    assert [(entry.version, entry.action, entry.rows, entry.files, entry.timestamp_ms) for entry in shown] == [
        (2, "append", 2, 1, 6_000),
        (1, "append", 1, 1, 1_001),
        (0, "create", 0, 0, 1_000),
    ]
    assert {entry.writer for entry in shown} == {WRITER}
    assert sum(entry.bytes for entry in shown) == state.totals.bytes
    assert [entry.version for entry in read_history(store, state, limit=2)] == [2, 1]
    assert len(read_history(store, state, limit=100)) == 3
    older = read_state_at(store, 1, state)
    assert [entry.version for entry in read_history(store, older)] == [1, 0]


def test_a_long_history_is_read_in_windows(store: RetriedStore) -> None:
    state = _build(store, rows=0)
    for _ in range(70):
        state = commit_append(store, state, Written(entries=(), runs=()))
    apart = store.apart()
    assert [entry.version for entry in read_history(apart, state)] == list(range(70, -1, -1))
    assert apart.meter.snapshot().get.requests == 71


def _write(store: Store, state: TableState, steps: int = 0) -> TableState:
    """A write that announces itself, after so many that had nothing to do."""
    for _ in range(steps):
        with working(store, state, Start(action="append"), SYSTEM) as work:
            pass
        state = work.state
    with working(store, state, Start(action="append"), SYSTEM) as work:
        commit_append(store, state, Written(entries=(), runs=()), work.runtime, work)
    return work.state


def test_history_leaves_out_steps_unless_asked_for(store: RetriedStore) -> None:
    state = _write(store, _write(store, _build(store, rows=0)), steps=1)
    shown, everything = read_history(store, state), read_history(store, state, steps=True)
    assert [(entry.version, entry.action) for entry in shown] == [(6, "append"), (2, "append"), (0, "create")]
    assert [entry.action for entry in everything] == ["append", "claim", "rollback", "claim", "append", "claim", "create"]
    assert [entry for entry in everything if entry.action in ("append", "create")] == shown
    # Entries of one instant carry its id, and no two instants have the same.
    (last, began, nothing, tried, first, first_began, created) = (entry.instant for entry in everything)
    assert (last, nothing, first, created) == (began, tried, first_began, None)
    assert len({last, nothing, first}) == 3


def test_a_clean_is_shown(store: RetriedStore) -> None:
    state = _build(store, rows=0)
    state = Log(store, "test").append(state, lambda _: Proposal(action="clean"))
    assert [entry.action for entry in read_history(store, state)] == ["clean", "create"]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_limit_counts_what_is_shown(store: RetriedStore, limit: int) -> None:
    state = _write(store, _write(store, _build(store, rows=0), steps=20), steps=20)
    assert read_history(store, state, limit) == read_history(store, state)[:limit]
    assert read_history(store, state, limit, steps=True) == read_history(store, state, steps=True)[:limit]


def test_a_limit_bounds_what_is_read(store: RetriedStore) -> None:
    state = _build(store, rows=0)
    for _ in range(50):
        state = _write(store, state)
    few, behind = store.apart(), store.apart()
    assert len(read_history(few, state, limit=3)) == 3
    assert few.meter.snapshot().get.requests == 6
    state = _write(store, state, steps=20)
    # The newest is the last entry; what precedes it are 41 steps, read in windows of 4, 8, 16 and 32 entries.
    assert [entry.version for entry in read_history(behind, state, limit=2)] == [142, 100]
    assert behind.meter.snapshot().get.requests == 4 + 8 + 16 + 32


def test_history_ends_where_versions_cannot_be_read(store: RetriedStore) -> None:
    state = _build(store, rows=0)
    for _ in range(4):
        state = commit_append(store, state, Written(entries=(), runs=()))
    state = Log(store, "test").append(state, lambda _: Proposal(action="clean", oldest=3))
    store.delete([log_path(version) for version in range(3)])
    assert [entry.version for entry in read_history(store, state)] == [5, 4, 3]
    assert [entry.version for entry in read_history(store, state, limit=100)] == [5, 4, 3]


@pytest.mark.parametrize("limit", [0, -1])
def test_a_wrong_limit_is_refused(store: RetriedStore, limit: int) -> None:
    with pytest.raises(InvalidError, match=rf"limit is {limit}; give a number above zero"):
        read_history(store, _build(store), limit)
