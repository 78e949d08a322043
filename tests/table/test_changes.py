"""What `changes` says of single versions, what it costs, and what it refuses."""

from datetime import UTC, datetime
from typing import Any, get_args

import pyarrow as pa
import pytest
from pyroaring import BitMap

from needlefish.api.changes import changes_of
from needlefish.config import StoreConfig
from needlefish.errors import InvalidError, NotFoundError
from needlefish.format.files_record import encode_files
from needlefish.format.run import IS_DELETED
from needlefish.index.build import put_run
from needlefish.model.log import Action, TableState
from needlefish.runtime import SYSTEM
from needlefish.services.merge import merge
from needlefish.services.rewrite import plan_compaction, rewrite_here
from needlefish.store import RetriedStore, open_store
from needlefish.table import chunkset_rows
from needlefish.table.changes import entries, rows, shares
from needlefish.table.evolve import Changes, evolve
from needlefish.table.history import read_history
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.testing.changes import delete_table, delete_where, upsert_table
from needlefish.testing.tables import append_rows, build_table, scan_table
from needlefish.timeline import Log, Proposal
from needlefish.version import WRITER

SCHEMA = "id int64, host string, n int64"
SMALL = {"chunkset_rows": 4, "granule_rows": 2}


def row(number: int, host: str | None = "a", n: int = 0) -> dict[str, Any]:
    return {"id": number, "host": host, "n": n}


def changed(store: RetriedStore, base: TableState | None, state: TableState, *, before: bool = False) -> list[tuple[Any, ...]]:
    """Sorted: by version, by what happened, by key."""
    first = None if base is None else base.version
    found = changes_of(store, state, first, state.version, before=before).to_pylist()
    return sorted((one["_version"], one["_change"], one["id"], one["host"], one["n"]) for one in found)


def test_an_append_is_inserts(store: RetriedStore) -> None:
    created = build_table(store, SCHEMA, "id", properties=SMALL)
    state = append_rows(store, created, [row(number) for number in range(7)])
    assert changed(store, created, state) == [(state.version, "insert", number, "a", 0) for number in range(7)]
    assert changed(store, state, state) == []


def test_an_upsert_is_inserts_and_updates(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(number) for number in range(7)], properties=SMALL)
    state, _ = upsert_table(store, base, [row(2, n=1), row(6, n=1), row(9, n=1)])
    after = [(state.version, "insert", 9, "a", 1), (state.version, "update", 2, "a", 1), (state.version, "update", 6, "a", 1)]
    assert changed(store, base, state) == after
    old = [(state.version, "update_before", 2, "a", 0), (state.version, "update_before", 6, "a", 0)]
    assert changed(store, base, state, before=True) == after + old


def test_deletes_have_the_rows_that_they_removed(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(number, n=number) for number in range(7)], properties=SMALL)
    by_key, _ = delete_table(store, base, [row(1), row(5), row(77)])
    by_condition, _ = delete_where(store, by_key, "n >= 4")
    assert changed(store, base, by_condition) == [
        (by_key.version, "delete", 1, "a", 1),
        (by_key.version, "delete", 5, "a", 5),
        (by_condition.version, "delete", 4, "a", 4),
        (by_condition.version, "delete", 6, "a", 6),
    ]
    assert changed(store, by_key, by_condition) == changed(store, base, by_condition)[2:]


def test_a_row_that_comes_too_late_is_no_change(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(1, n=5)])
    state, result = upsert_table(store, base, [row(1, n=4), row(2, n=4)], order_by="n")
    assert result.late == 1
    assert changed(store, base, state, before=True) == [(state.version, "insert", 2, "a", 4)]


def test_a_row_that_somebody_else_removed_meanwhile_is_removed_once(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(1), row(2)])
    first, _ = delete_table(store, base, [row(1)])
    # This writer has not seen the delete: its own skips name the row again.
    state, _ = upsert_table(store, base, [row(1, n=9)])
    assert changed(store, base, state, before=True) == [(first.version, "delete", 1, "a", 0), (state.version, "insert", 1, "a", 9)]


def test_a_key_lives_in_its_partition(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(1, "a"), row(1, "b")], partition_by="host")
    state, _ = upsert_table(store, base, [row(1, "b", n=1), row(1, "c", n=1)])
    assert changed(store, base, state) == [(state.version, "insert", 1, "c", 1), (state.version, "update", 1, "b", 1)]


def test_a_global_key_that_moves_is_an_update(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(1, "a"), row(2, "b")], partition_by="host", properties={"global_keys": True})
    state, _ = upsert_table(store, base, [row(1, "b", n=1)])
    assert changed(store, base, state, before=True) == [(state.version, "update", 1, "b", 1), (state.version, "update_before", 1, "a", 0)]


def test_rows_of_any_age_have_todays_columns(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(1), row(2)])
    state = evolve(store, base, Changes(rename={"n": "count"}, add={"note": "string"}, drop=["host"]))
    state, _ = upsert_table(store, state, [{"id": 1, "count": 3, "note": "new"}])
    found = changes_of(store, state, base.version, None, before=True).to_pylist()
    assert sorted(found, key=lambda one: str(one["_change"])) == [
        {"id": 1, "count": 3, "note": "new", "_change": "update", "_version": state.version},
        {"id": 1, "count": 0, "note": None, "_change": "update_before", "_version": state.version},
    ]
    # Up to the version before the evolution, they have the columns of then.
    assert changes_of(store, state, None, base.version, before=False).to_arrow().column_names == ["id", "host", "n", "_change", "_version"]


def test_merging_runs_changes_nothing(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(number) for number in range(7)], properties=SMALL)
    middle, _ = upsert_table(store, base, [row(2, n=1)])
    state = middle
    for n in range(2, 12):
        state, _ = upsert_table(store, state, [row(2, n=n)])
        state = merge(store, state)
    assert any(entry.action == "merge" for entry in read_history(store, state))
    assert [(what, n) for _, what, _, _, n in changed(store, base, state)] == [("update", n) for n in range(1, 12)]


# Those of later days are refused by whoever decodes the log.
UNCHANGING = {"merge", "rebuild", "evolve", "index", "drop_index", "compaction", "clustering"}
UNCHANGING |= {"request", "claim", "cancel", "rollback", "clean"}


def compact(store: RetriedStore, state: TableState) -> TableState:
    """The same rows in other files."""
    plan = plan_compaction(Snapshot(store=store, state=state), where="id is not null")
    assert plan is not None
    return rewrite_here(store, state, plan)


def test_rows_that_a_compaction_moved_are_attributed_right(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(number) for number in range(7)], properties=SMALL)
    middle, _ = upsert_table(store, base, [row(2, n=1), row(8)])
    state = compact(store, middle)
    assert scan_table(store, state)[0].num_rows == 8
    state, _ = upsert_table(store, state, [row(2, n=2), row(3, n=2)])
    expected = [(middle.version, "insert", 8, "a", 0), (middle.version, "update", 2, "a", 1), (state.version, "update", 2, "a", 2)]
    assert changed(store, base, state) == [*expected, (state.version, "update", 3, "a", 2)]
    assert (state.version, "update_before", 3, "a", 0) in changed(store, base, state, before=True)


def test_files_that_a_write_removes_take_their_rows_along(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(number) for number in range(3)])
    base, _ = delete_table(store, base, [row(0)])
    infos = list(plan_scan(Snapshot(store=store, state=base), ScanRequest()).chunksets())
    records = encode_files(infos)
    records = records.set_column(1, records.schema.field(IS_DELETED), pa.array([True] * records.num_rows))
    run = put_run(store, "files", records, SYSTEM)
    state = Log(store, WRITER).append(base, lambda _: Proposal(action="delete", runs_added=(run,)))
    assert changed(store, base, state) == [(state.version, "delete", 1, "a", 0), (state.version, "delete", 2, "a", 0)]


def test_keys_beyond_a_group_are_compared_group_by_group(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_ROWS", 3)
    base = build_table(store, SCHEMA, "id", [row(number) for number in range(20)], properties=SMALL)
    state, _ = upsert_table(store, base, [row(number, n=1) for number in range(10, 30)])
    assert changed(store, base, state, before=True) == sorted(
        [
            *((state.version, "update", number, "a", 1) for number in range(10, 20)),
            *((state.version, "update_before", number, "a", 0) for number in range(10, 20)),
            *((state.version, "insert", number, "a", 1) for number in range(20, 30)),
        ]
    )


def test_shares_cut_for_tasks_give_the_same_rows(store: RetriedStore) -> None:
    base = build_table(store, SCHEMA, "id", [row(number) for number in range(20)], properties=SMALL)
    state, _ = upsert_table(store, base, [row(number, n=1) for number in range(10, 30)])
    cut = [
        share for change in entries.changes_between(store, base, state.version) for share in shares.shares_of(change, state.definition, 1)
    ]
    assert len(cut) > 4
    # Sorted files: a share is compared with those whose keys lie in its own range.
    assert max(len(share.other) for share in cut) <= 2
    tasks = list(shares.packed(cut, most_bytes=max(share.bytes for share in cut) * 2))
    assert 1 < len(tasks) < len(cut)
    found = [
        one
        for task in tasks
        for share in task
        for batch in rows.share_rows(store, state.definition, share, before=True)
        for one in batch.to_pylist()
    ]
    assert sorted((one["_version"], one["_change"], one["id"], one["host"], one["n"]) for one in found) == changed(
        store, base, state, before=True
    )


def test_the_cost_follows_the_changes() -> None:
    def cost(files: int) -> tuple[int, int]:
        store = open_store(StoreConfig(uri=f"memory://cost of changes {files}"))
        base = build_table(store, SCHEMA, "id", [row(number) for number in range(4 * files)], properties=SMALL)
        state, _ = upsert_table(store, base, [row(2, n=1), row(4 * files + 1)])
        found = changes_of(store.apart(), state, base.version, None, before=False)
        before = found.usage
        assert found.count() == 2
        used = found.usage - before
        return used.requests, used.bytes_read

    small, large = cost(4), cost(400)
    assert large[0] <= small[0] + 2
    # A block of the `files` run has 256 records, however many files there are.
    assert large[1] < 256 * 1024


def test_arguments_that_no_range_has(store: RetriedStore) -> None:
    state = build_table(store, SCHEMA, "id", [row(1)])
    with pytest.raises(InvalidError, match="from_version is 99"):
        changes_of(store, state, 99, None, before=False)
    with pytest.raises(NotFoundError, match="version 99"):
        changes_of(store, state, 0, 99, before=False)
    with pytest.raises(InvalidError, match="to_version is '1'"):
        changes_of(store, state, 0, "1", before=False)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="version -1"):
        changes_of(store, state, -1, None, before=False)


def test_a_table_with_such_a_column_is_refused_and_says_the_remedy(store: RetriedStore) -> None:
    state = build_table(store, "id int64, _Change string", "id")
    with pytest.raises(InvalidError, match="rename"):
        changes_of(store, state, None, None, before=False)


def test_every_action_is_known_to_change_rows_or_not() -> None:
    assert set(get_args(Action)) <= entries.CHANGING | UNCHANGING
    assert not entries.CHANGING & UNCHANGING


def test_times_are_instants(store: RetriedStore) -> None:
    when = datetime(2026, 11, 1, tzinfo=UTC)
    state = build_table(store, "id int64, ts timestamp", "id", [{"id": 1, "ts": when}], partition_by="day(ts)")
    (found,) = changes_of(store, state, None, None, before=False).to_pylist()
    assert found["ts"] == when


@pytest.mark.parametrize("stretch", [1, 3, 5, 100])
def test_rows_by_their_positions(store: RetriedStore, monkeypatch: pytest.MonkeyPatch, stretch: int) -> None:
    monkeypatch.setattr(chunkset_rows, "STRETCH_ROWS", stretch)
    state = build_table(store, SCHEMA, "id", [row(number) for number in range(11)], properties={"granule_rows": 2})
    (info,) = plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets()
    for chosen in ([], [0], [10], [1, 2, 9], [0, 1, 6, 7, 8, 10], list(range(11))):
        found = list(chunkset_rows.rows_at(store, state.definition, info, BitMap(chosen), state.definition.key_fields))
        assert [place for positions, _ in found for place in positions.tolist()] == chosen
        assert [key for _, rows in found for key in rows["id"].to_pylist()] == chosen
