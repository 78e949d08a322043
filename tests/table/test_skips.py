"""Hidden rows: every way to read agrees with a dict, over many runs and merges, and what is all hidden is never opened."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError
from needlefish.format.metadata_key import file_key
from needlefish.format.run import IS_DELETED, run_path
from needlefish.format.skips_record import encode_skips, skips_in
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState, Totals
from needlefish.runtime import SYSTEM
from needlefish.services.merge import MergePlan, commit_merges, run_merge, tidy
from needlefish.store import RetriedStore, Store, open_store
from needlefish.table import skips as skips_module
from needlefish.table.commit import commit_append
from needlefish.table.evolve import Changes, evolve
from needlefish.table.read_task import ReadTask, info_rows
from needlefish.table.row_changes import RowChanges, commit_changes
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.skips import skips_of
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag import LocateTask, ProbeTask, TagPlan, tag_fields
from needlefish.table.tag.parcel import PARCEL_SCHEMA
from needlefish.table.verify import verify_table
from needlefish.testing.damage import RUN_DAMAGES
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table, skip_rows, write_rows
from needlefish.timeline import Log, Proposal

_numbers = count()
SMALL = {"chunkset_rows": 40, "granule_rows": 8}
START = datetime(2026, 11, 1, tzinfo=UTC)


def fresh() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://skips-{next(_numbers)}"))


def rows_of(first: int, end: int, value: str = "") -> list[dict[str, Any]]:
    return [{"id": number, "at": START + timedelta(hours=number), "note": f"{value}{number % 5}"} for number in range(first, end)]


def build(store: Store, rows: int = 100, *, partition_by: tuple[str, ...] = (), **properties: object) -> TableState:
    return build_table(
        store, "id int64, at timestamp, note string", "id", rows_of(0, rows), partition_by=partition_by, properties={**SMALL, **properties}
    )


def infos(store: Store, state: TableState) -> list[ChunksetInfo]:
    return list(plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets())


def ids(store: Store, state: TableState, **request: object) -> list[int]:
    return sorted(scan_table(store, state, **request)[0]["id"].to_pylist())


def key_of(info: ChunksetInfo) -> str:
    return file_key(info.partition, info.file_name)


def tagged(store: RetriedStore, state: TableState, rows: list[dict[str, Any]]) -> dict[int, tuple[str, int]]:
    """Chunkset and row of each key that is found."""
    fields = tag_fields(state.definition)
    given_rows = pa.Table.from_pylist(rows, schema=pa.schema([field.to_arrow().with_nullable(True) for field in fields]))
    plan = TagPlan(state=state, store=store.config, delivered=tuple(given_rows.schema.types))
    parcels = pa.Table.from_batches(ProbeTask(plan=plan)(given_rows.to_batches()), schema=PARCEL_SCHEMA).sort_by("file")
    found = pa.Table.from_batches(LocateTask(plan=plan)(parcels.to_batches()), schema=plan.result_schema)
    return dict(
        zip(found[plan.names[0]].to_pylist(), zip(found["chunkset"].to_pylist(), found["row"].to_pylist(), strict=True), strict=True)
    )


def read_by_tasks(store: RetriedStore, state: TableState) -> list[dict[str, Any]]:
    batches = info_rows(infos(store, state)).to_batches()
    return [row for batch in ReadTask(state=state, store=store.config)(batches) for row in batch.to_pylist()]


def check(store: RetriedStore, state: TableState, model: dict[int, dict[str, Any]], asked: range) -> None:
    """Scans, finds, tags and the reader of tasks say what the dict says."""
    whole, receipt = scan_table(store, state)
    assert {row["id"]: row for row in whole.to_pylist()} == model
    assert whole.num_rows == len(model) == state.totals.visible_rows
    assert receipt.rows_returned == receipt.rows_read - receipt.rows_skipped
    some = scan_table(store, state, where="note like '%3'")[0].to_pylist()
    assert sorted(row["id"] for row in some) == sorted(key for key, row in model.items() if row["note"].endswith("3"))
    found, receipt_of_find = find_table(store, state, list(asked))
    assert {row["id"]: row for row in found.to_pylist()} == {key: row for key, row in model.items() if key in asked}
    assert found.num_rows == len([key for key in model if key in asked]) == receipt_of_find.rows_returned
    by_note = find_table(store, state, note="3")[0].to_pylist()
    assert sorted(row["id"] for row in by_note) == sorted(key for key, row in model.items() if row["note"] == "3")
    assert sorted(read_by_tasks(store, state), key=lambda row: row["id"]) == sorted(model.values(), key=lambda row: row["id"])
    places = tagged(store, state, [{"id": key, "at": START + timedelta(hours=key)} for key in asked])
    assert set(places) == {key for key in model if key in asked}
    by_id = {info.id: info for info in infos(store, state)}
    hidden = skips_of(Snapshot(store=store, state=state), map(key_of, by_id.values()))
    assert not any(row in hidden.get(key_of(by_id[chunkset]), ()) for chunkset, row in places.values())


steps = st.lists(st.tuples(st.sampled_from(["delete", "upsert", "append", "merge"]), st.integers(0, 6), st.integers(2, 7)), max_size=7)


@settings(max_examples=25)
@given(steps=steps, partition_by=st.sampled_from([(), ("day(at)",), ("bucket(id, 3)",)]), evolves=st.booleans())
def test_every_way_to_read_agrees_with_a_dict(steps: list[tuple[str, int, int]], partition_by: tuple[str, ...], evolves: bool) -> None:
    store = fresh()
    state = build(store, partition_by=partition_by)
    model = {row["id"]: row for row in rows_of(0, 100)}
    versions = [(state, dict(model))]
    for action, remainder, modulus in steps:
        chosen = {key for key in model if key % modulus == remainder % modulus}
        if action == "append":
            new = rows_of(200 + len(versions) * 10, 205 + len(versions) * 10)
            state, model = append_rows(store, state, new), model | {row["id"]: row for row in new}
        elif action == "merge":
            state = merged(store, state)
        else:
            new = [row for row in rows_of(0, 300, f"v{len(versions)}-") if row["id"] in chosen] if action == "upsert" else []
            state = skip_rows(store, state, lambda row, chosen=chosen: row["id"] in chosen, rows=new)
            model = {key: row for key, row in model.items() if key not in chosen} | {row["id"]: row for row in new}
        versions.append((state, dict(model)))
    if evolves:
        state = evolve(store, state, Changes(add={"more": "string"}))
        versions.append((state, {key: row | {"more": None} for key, row in model.items()}))
    for at, then in (versions[len(versions) // 2], versions[-1]):
        check(store, at, then, range(0, 300, 3))
    assert not verify_table(Snapshot(store=store, state=state)).problems


def merged(store: RetriedStore, state: TableState) -> TableState:
    """All runs of skips as one, however few they are."""
    runs = state.runs_of("skips")
    if len(runs) < 2:
        return state
    done = run_merge(store, state, MergePlan(kind="skips", runs=runs, oldest=True))
    return commit_merges(store, state, [done]) or state


def test_nothing_is_read_where_a_state_has_no_skips() -> None:
    store = fresh()
    state = build(store)
    apart = store.apart()
    assert skips_of(Snapshot(store=apart, state=state), [key_of(info) for info in infos(store, state)]) == {}
    assert apart.meter.snapshot().requests == 0


def test_runs_add_up_and_so_does_their_merge() -> None:
    store = fresh()
    state = build(store)
    for number in range(12):
        state = skip_rows(store, state, lambda row, number=number: row["id"] % 20 == number)
    before = {key: set(rows) for key, rows in skips_of(Snapshot(store=store, state=state), map(key_of, infos(store, state))).items()}
    tidied = tidy(store, state)
    assert (len(state.runs_of("skips")), len(tidied.runs_of("skips"))) == (12, 1)
    after = skips_of(Snapshot(store=store, state=tidied), map(key_of, infos(store, state)))
    assert {key: set(rows) for key, rows in after.items()} == before
    assert sum(map(len, before.values())) == 60 == tidied.totals.skipped
    assert ids(store, tidied) == [number for number in range(100) if number % 20 >= 12]


def test_a_skip_that_comes_before_its_chunkset_is_not_lost() -> None:
    store = fresh()
    state = build(store, 10)
    written = write_rows(store, state, rows_of(10, 20))
    (entry,) = written.entries
    early = commit_changes(store, state, RowChanges(action="delete", skips=(skips_in(entry.info, [0, 3]),))).state
    assert ids(store, early) == list(range(10))
    early = skip_rows(store, early, lambda row: row["id"] == 4)
    early = merged(store, early)
    late = commit_append(store, early, written)
    assert ids(store, late) == [number for number in range(20) if number not in (4, 10, 13)]
    assert late.totals.visible_rows == 17
    assert not verify_table(Snapshot(store=store, state=late)).problems


def test_a_tombstone_ends_what_older_runs_say_and_nothing_else() -> None:
    store = fresh()
    state = skip_rows(store, build(store), lambda row: row["id"] in (1, 41))
    one, other, *_ = sorted(infos(store, state), key=lambda info: info.first_key)
    rows = encode_skips([skips_in(one, [0])]).to_pylist()
    tombstone = put_run(
        store, "skips", pa.Table.from_pylist([rows[0] | {IS_DELETED: True, "skips": None}], schema=encode_skips([]).schema), SYSTEM
    )
    state = Log(store, "test").append(state, lambda _: Proposal(action="merge", runs_added=(tombstone,), added=Totals(skipped=-1)))
    expected = {key_of(other): {1}}
    for at in (state, merged(store, state)):
        found = skips_of(Snapshot(store=store, state=at), map(key_of, infos(store, state)))
        assert {key: set(rows) for key, rows in found.items()} == expected


def opened(store: RetriedStore, state: TableState, path: str) -> Iterator[int]:
    """Bytes that each way to read takes from a file, once it cannot be read any more."""
    store.delete([path])
    yield scan_table(store, state)[0].num_rows
    yield find_table(store, state, list(range(100)))[0].num_rows
    yield find_table(store, state, note="2")[0].num_rows * 5
    yield len(tagged(store, state, [{"id": number} for number in range(100)]))
    yield len(read_by_tasks(store, state))


def test_a_chunkset_that_is_all_hidden_is_never_opened_again() -> None:
    store = fresh()
    state = skip_rows(store, build(store), lambda row: row["id"] < 40)
    first = min(infos(store, state), key=lambda info: info.first_key)
    _, receipt = scan_table(store, state)
    assert (receipt.files_pruned_by_skips, receipt.files_read, receipt.rows_skipped, receipt.rows_read) == (1, 2, 0, 60)
    _, found = find_table(store, state, [5, 50])
    assert (found.files_skipped, found.level("data").files_in, found.rows_returned) == (1, 2, 1)
    assert list(opened(store, state, first.path)) == [60] * 5


def test_a_granule_that_is_all_hidden_is_not_read() -> None:
    store = fresh()
    state = skip_rows(store, build(store), lambda row: 8 <= row["id"] < 16 or row["id"] == 20)
    _, receipt = scan_table(store, state)
    assert (receipt.granules_pruned_by_skips, receipt.rows_read, receipt.rows_skipped) == (1, 92, 1)
    _, found = find_table(store, state, [9, 20, 21])
    assert (found.granules_read, found.rows_skipped, found.rows_returned) == (1, 1, 1)


def test_looking_up_skips_costs_a_block_of_each_run_and_nothing_for_each_file() -> None:
    store = fresh()
    state = build(store, 400, chunkset_rows=4, granule_rows=4)
    state = skip_rows(store, skip_rows(store, state, lambda row: row["id"] % 4 == 1), lambda row: row["id"] % 4 == 2)
    snapshot = Snapshot(store=store.apart(), state=state)
    keys = [key_of(info) for info in infos(store, state)]
    assert len(skips_of(snapshot, keys)) == 100
    # Two runs, which are small and come whole.
    assert snapshot.store.meter.snapshot().requests == 2  # type: ignore[attr-defined]


def test_files_are_looked_up_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    store = fresh()
    state = skip_rows(store, build(store, 400, chunkset_rows=4, granule_rows=4), lambda row: row["id"] % 4 == 1)
    sizes: list[int] = []
    lookup = skips_module.skips_of
    monkeypatch.setattr(skips_module, "skips_of", lambda snapshot, keys: (sizes.append(len(keys)), lookup(snapshot, keys))[1])
    monkeypatch.setattr(skips_module, "_GROUP_FILES", 30)
    assert len(ids(store, state)) == 300
    assert sizes == [30, 30, 30, 10]
    sizes.clear()
    monkeypatch.setattr(skips_module, "_GROUP_BYTES", 5)
    assert len(ids(store, state)) == 300
    assert sizes == [10] * 10, "forty rows have forty bits"


@pytest.mark.parametrize("damage", [name for name in RUN_DAMAGES if name != "footer flipped"])
def test_a_damaged_run_stops_every_reader_rather_than_bring_rows_back(damage: str) -> None:
    store = fresh()
    state = skip_rows(store, build(store), lambda row: row["id"] % 2 == 0)
    (run,) = state.runs_of("skips")
    RUN_DAMAGES[damage](store, run)
    ways: list[Any] = [
        lambda: scan_table(store, state),
        lambda: find_table(store, state, [1]),
        lambda: find_table(store, state, note="1"),
        lambda: tagged(store, state, [{"id": 1}]),
        lambda: read_by_tasks(store, state),
    ]
    for way in ways:
        with pytest.raises(CorruptError, match=run_path("skips", run.id)):
            way()


def test_a_record_that_is_no_bitmap_stops_readers_and_merges() -> None:
    store = fresh()
    state = skip_rows(store, build(store, 10), lambda row: row["id"] == 1)
    (info,) = infos(store, state)
    (row,) = encode_skips([skips_in(info, [2])]).to_pylist()
    bad = put_run(store, "skips", pa.Table.from_pylist([row | {"skips": b"zzz"}], schema=encode_skips([]).schema), SYSTEM)
    state = Log(store, "test").append(state, lambda _: Proposal(action="delete", runs_added=(bad,)))
    with pytest.raises(CorruptError, match="no Roaring bitmap"):
        scan_table(store, state)
    with pytest.raises(CorruptError, match="no Roaring bitmap"):
        run_merge(store, state, MergePlan(kind="skips", runs=state.runs_of("skips"), oldest=True))
    problems = verify_table(Snapshot(store=store, state=state)).problems
    assert [problem.object for problem in problems] == [run_path("skips", bad.id)]
    assert "no Roaring bitmap" in problems[0].what


@given(rows=st.sets(st.integers(0, 5_000)), first=st.integers(0, 5_000), length=st.integers(0, 600))
def test_a_mask_is_what_the_bitmap_says(rows: set[int], first: int, length: int) -> None:
    hidden = skips_module.Hidden(rows=BitMap(rows))
    assert hidden.shown(first, first + length).tolist() == [number not in rows for number in range(first, first + length)]
    assert hidden.count(first, first + length) == len(rows & set(range(first, first + length)))
