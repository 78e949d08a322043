"""The commit of a rewrite: what others did meanwhile stands, no removed file comes back, and a crash leaves the table as it was."""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, CorruptError, InvalidError
from needlefish.format.files_record import decode_files
from needlefish.format.metadata_key import file_key
from needlefish.format.run import IS_DELETED, KEY, run_path
from needlefish.format.skips_record import skips_in
from needlefish.index import newest
from needlefish.index.merge import merge_runs
from needlefish.index.run_reader import RunReader
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunKind, TableState
from needlefish.runtime import SYSTEM
from needlefish.services.build_index import BuildPlan, build_here, build_index, drop_index
from needlefish.services.merge import merge
from needlefish.services.rebuild import RebuildTask, commit_rebuild
from needlefish.services.recover import FileClue, clue_of, live_files
from needlefish.services.rewrite import (
    RewritePlan,
    commit_rewrite,
    plan_clustering,
    plan_compaction,
    removal_runs,
    rewrite_here,
    written_here,
)
from needlefish.services.shares import SHARE_SCHEMA, item_rows, joined
from needlefish.store import RetriedStore, open_store
from needlefish.table.evolve import Changes, evolve
from needlefish.table.partition.select import parse_partitions
from needlefish.table.point.declare import PointIndex, define_index
from needlefish.table.row_changes import RowChanges, commit_changes
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.skips import with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.faulty_store import crash_everywhere
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table, skip_rows
from needlefish.timeline import Proposal, read_newest

KINDS: tuple[RunKind, ...] = ("files", "column_stats", "bloom_filters", "skips")
_numbers = count()


def fresh() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://rewrite-commit-{next(_numbers)}"))


@pytest.fixture
def store() -> RetriedStore:
    return fresh()


def rows(first: int, end: int) -> list[dict[str, Any]]:
    return [{"id": f"k{number:03}", "host": "ab"[number % 2], "n": number} for number in range(first, end)]


def number_of(row: Mapping[str, object]) -> int:
    return int(str(row["n"]))


def built(store: Any, **arguments: Any) -> TableState:
    """Four commits of two partitions, with hidden rows in the first three files of each; then one that is no input."""
    arguments = {"partition_by": "host", "bloom_columns": "n", "properties": {"granule_rows": 4, "chunkset_rows": 40}} | arguments
    state = build_table(store, "id string, host string, n int64", "id", rows(0, 12), **arguments)
    for first in (12, 24, 36):
        state = append_rows(store, state, rows(first, first + 12))
    return skip_rows(store, state, lambda row: number_of(row) % 5 == 0 and number_of(row) < 36)


def planned(store: Any, state: TableState, order: Sequence[str] = ()) -> RewritePlan:
    snapshot = Snapshot(store=store, state=state)
    plan = plan_clustering(snapshot, list(order)) if order else plan_compaction(snapshot)
    assert plan is not None
    return plan


def numbers(store: Any, state: TableState) -> list[int]:
    return sorted(scan_table(store, state, columns=["n"])[0]["n"].to_pylist())


def infos(store: Any, state: TableState) -> list[ChunksetInfo]:
    return list(plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets())


def check(store: Any, state: TableState, expected: Sequence[int]) -> None:
    assert numbers(store, state) == list(expected)
    assert verify_table(Snapshot(store=store, state=state), data=True).problems == ()


VISIBLE = [number for number in range(48) if number % 5 or number >= 36]


def test_rows_that_others_hide_meanwhile_are_a_conflict(store: RetriedStore) -> None:
    base = built(store)
    plan = planned(store, base)
    written = written_here(store, base, plan)
    other = skip_rows(store, base, lambda row: row["n"] == 7)
    with pytest.raises(ConflictError) as error:
        commit_rewrite(store, base, plan, written)
    touched = next(info for info in infos(store, base) if info.partition == "host=b" and b"k001" in info.first_key)
    words = (
        f"rows of {touched.path} were replaced or deleted between version {base.version} and {other.version}, while the compaction was made"
    )
    assert words in str(error.value)
    assert read_newest(store) == other
    check(store, other, [number for number in VISIBLE if number != 7])
    again = planned(store, other)
    check(store, rewrite_here(store, other, again), [number for number in VISIBLE if number != 7])


def test_what_does_not_touch_the_inputs_stands_beside_it(store: RetriedStore) -> None:
    base = built(store)
    plan = planned(store, base)
    written = written_here(store, base, plan)
    other = append_rows(store, base, rows(48, 60))
    other = skip_rows(store, other, lambda row: row["n"] == 50)
    after = commit_rewrite(store, base, plan, written)
    assert after.version == other.version + 1
    check(store, after, [*VISIBLE, *(number for number in range(48, 60) if number != 50)])


def test_rows_that_were_hidden_already_may_be_hidden_again(store: RetriedStore) -> None:
    base = built(store)
    plan = planned(store, base)
    written = written_here(store, base, plan)
    known = [skips_in(info, hidden.rows) for info, hidden in with_hidden(Snapshot(store=store, state=base), infos(store, base)) if hidden]
    commit_changes(store, base, RowChanges(action="delete", skips=tuple(known)))
    check(store, commit_rewrite(store, base, plan, written), VISIBLE)


@pytest.mark.parametrize("late", [False, True])
def test_files_are_rewritten_once(store: RetriedStore, late: bool) -> None:
    base = built(store)
    plan = planned(store, base)
    written = written_here(store, base, plan)
    after = rewrite_here(store, base, plan)
    again: Callable[[], object] = partial(commit_rewrite, store, base, plan, written) if late else partial(written_here, store, after, plan)
    with pytest.raises(ConflictError, match=rf"is no longer part of version {after.version}; plan again"):
        again()
    assert read_newest(store) == after
    check(store, after, VISIBLE)


def test_a_table_that_was_redefined_is_a_conflict(store: RetriedStore) -> None:
    base = built(store)
    plan = planned(store, base)
    written = written_here(store, base, plan)
    after = evolve(store, base, Changes(add={"more": "string"}))
    with pytest.raises(ConflictError, match="was redefined between version"):
        commit_rewrite(store, base, plan, written)
    check(store, rewrite_here(store, after, planned(store, after)), VISIBLE)


def test_an_index_that_came_meanwhile_is_told_what_it_lacks(store: RetriedStore) -> None:
    base = built(store)
    plan = planned(store, base)
    written = written_here(store, base, plan)
    index = define_index(PointIndex("n"), base.definition.schema, base.definition.properties)
    build_index(store, base, index, build_here(store))
    after = commit_rewrite(store, base, plan, written)
    assert sum(run.records for run in after.runs_of("uncovered/n")) == len(written.entries)
    check(store, after, VISIBLE)
    found, receipt = find_table(store, after, n=[7, 10, 47])
    assert sorted(found["n"].to_pylist()) == [7, 47]
    assert receipt.index.startswith("postings 'n'")
    again = plan_compaction(Snapshot(store=store, state=after), where="n >= 0")
    assert again is not None
    last = rewrite_here(store, after, again)
    assert [
        key for records in newest.scan(store, Snapshot(store=store, state=last).runs("uncovered/n")) for key in records[KEY].to_pylist()
    ] == []
    assert sorted(find_table(store, last, n=[7, 10, 47])[0]["n"].to_pylist()) == [7, 47]


def test_an_index_that_went_meanwhile_has_no_runs(store: RetriedStore) -> None:
    base = built(store, indexes=[nf.PointIndex("n")])
    plan = planned(store, base)
    written = written_here(store, base, plan)
    assert any(run.kind == "index/n" for run in written.runs)
    drop_index(store, base, "n")
    after = commit_rewrite(store, base, plan, written)
    assert after.runs_of("index/n") == ()
    check(store, after, VISIBLE)


def test_an_index_that_is_built_across_it_finds_everything(store: RetriedStore) -> None:
    base = built(store)
    index = define_index(PointIndex("n"), base.definition.schema, base.definition.properties)
    job = build_here(store)
    rounds = count()

    def with_compaction(plan: BuildPlan, files: Sequence[ChunksetInfo]) -> Any:
        if next(rounds) == 0:
            rewrite_here(store, base, planned(store, base))
        return job(plan, files)

    after, _ = build_index(store, base, index, with_compaction)
    check(store, after, VISIBLE)
    assert sorted(find_table(store, after, n=[7, 10, 47])[0]["n"].to_pylist()) == [7, 47]


def test_every_kind_has_tombstones(store: RetriedStore) -> None:
    base = built(store)
    inputs = infos(store, base)
    runs = {run.kind: run for run in removal_runs(store, base, inputs, SYSTEM)}
    assert {kind: run.records for kind, run in runs.items()} == {"files": 8, "column_stats": 24, "bloom_filters": 16, "skips": 6}
    for kind, run in runs.items():
        gone = {row[KEY] for records in RunReader(run).scan(store) for row in records.to_pylist() if row[IS_DELETED]}
        there = newest.scan(store, Snapshot(store=store, state=base).runs(kind))
        assert gone == {key for records in there for key in records[KEY].to_pylist()}
        # Keys of records are hashes in letters and digits, which may spell anything.
        text = str([records.drop_columns([KEY]).to_pylist() for records in RunReader(run).scan(store)])
        assert "k0" not in text, "no value of a row"


@pytest.mark.parametrize("order", [(), ("n",)])
def test_merges_drop_tombstones_and_nothing_comes_back(store: RetriedStore, order: Sequence[str]) -> None:
    state = built(store, indexes=[nf.PointIndex("n"), nf.PointIndex("id", kind="cuckoo")])
    state = rewrite_here(store, state, planned(store, state, order))
    for number in range(8):
        state = skip_rows(store, append_rows(store, state, rows(48 + number, 49 + number)), lambda row, at=48 + number: row["n"] == at)  # type: ignore[misc]
    merged = merge(store, state)
    live = {file_key(info.partition, info.file_name) for info in infos(store, state)}
    for kind in KINDS:
        (run,) = merged.runs_of(kind)
        records = [row for batch in RunReader(run).scan(store) for row in batch.to_pylist()]
        assert not any(row[IS_DELETED] for row in records)
        assert {file_key(row["partition"], row.get("file_name") or f"{row['id']}.parquet") for row in records} <= live
    check(store, merged, VISIBLE)
    assert find_table(store, merged, n=[7, 10, 47])[0]["n"].to_pylist() == [7, 47]


def rebuilt(store: RetriedStore, state: TableState, kind: RunKind, clues: Iterable[FileClue]) -> TableState:
    task = RebuildTask(kind=kind, definition=state.definition, store=store.config)
    batches = task(item_rows((clue.key, clue) for clue in clues).to_batches())
    share = joined(pa.Table.from_batches(batches, schema=SHARE_SCHEMA))
    assert share.lost == ()
    return commit_rebuild(store, state, kind, share, whole=True).state


@pytest.mark.parametrize("order", [(), ("n",), ("n", "host")])
@pytest.mark.parametrize("lost", [("files",), ("files", "column_stats")])
def test_a_rebuild_of_lost_runs_brings_no_removed_file_back(tmp_path: Any, order: Sequence[str], lost: Sequence[RunKind]) -> None:
    store = open_store(StoreConfig(uri=str(tmp_path)))
    state = built(store)
    snapshot = Snapshot(store=store, state=state)
    plan = plan_clustering(snapshot, list(order), zorder=len(order) > 1) if order else plan_compaction(snapshot)
    assert plan is not None
    state = rewrite_here(store, state, plan)
    before = {info.path: replace(info, prev_max=0) for info in infos(store, state)}
    for run in (run for kind in lost for run in state.runs_of(kind)):
        store.delete([run_path(run.kind, run.id)])
    snapshot = Snapshot(store=store, state=state)
    after = rebuilt(store, state, "files", live_files(snapshot, parse_partitions(None, snapshot.partition_columns)))
    assert {info.path: replace(info, prev_max=0) for info in infos(store, after)} == before
    assert {(info.order, info.curve) for info in before.values()} == {(plan.order, plan.curve)}
    if "column_stats" in lost:
        after = rebuilt(store, after, "column_stats", [clue_of(info) for info in infos(store, after)])
    check(store, after, VISIBLE)


def test_a_table_of_an_older_release_is_rewritten_too(tmp_path: Path) -> None:
    """Its `files` runs know nothing of the order of rows, and are read and merged with those that do."""
    shutil.copytree(Path(__file__).parents[1] / "golden" / "format-1" / "table", tmp_path / "table")
    store = open_store(StoreConfig(uri=str(tmp_path / "table")))
    state = read_newest(store)
    before = sorted(map(str, scan_table(store, state)[0].to_pylist()))
    chosen = [file_key(info.partition, info.file_name) for info in infos(store, state)[:3]]
    plan = plan_clustering(Snapshot(store=store, state=state), ["ts"], files=chosen)
    assert plan is not None
    after = rewrite_here(store, state, plan)
    assert sorted(map(str, scan_table(store, after)[0].to_pylist())) == before
    assert verify_table(Snapshot(store=store, state=after), data=True).problems == ()
    merged = merge_runs(store, "files", after.runs_of("files"), SYSTEM, drop_tombstones=True)
    found = [info for records in RunReader(merged).scan(store) for info in decode_files(records)]
    assert found == infos(store, after)
    assert {info.order for info in found} == {(), plan.order}
    whole = plan_compaction(Snapshot(store=store, state=after), where="ts > '1900-01-01'")
    assert whole is not None
    assert sorted(map(str, scan_table(store, rewrite_here(store, after, whole))[0].to_pylist())) == before, "nested columns too"


def test_rows_that_are_missing_are_refused(store: RetriedStore) -> None:
    base = built(store)
    plan = planned(store, base)
    written = written_here(store, base, plan)
    assert len(written.entries) == 2
    with pytest.raises(CorruptError, match="40 rows are visible in the files that were read, but 20 were written; nothing was committed"):
        commit_rewrite(store, base, plan, replace(written, entries=written.entries[:1]))
    assert read_newest(store) == base


def test_a_key_that_is_visible_twice_is_refused(store: RetriedStore) -> None:
    state = append_rows(store, built(store, partition_by=()), rows(1, 2))
    with pytest.raises(InvalidError, match=r"the key {'id': 'k001'} is visible in more than one file; upsert its row anew"):
        rewrite_here(store, state, planned(store, state))


def test_the_last_word_is_the_callers(store: RetriedStore) -> None:
    base = built(store)
    plan = planned(store, base)
    seen: list[tuple[int, str]] = []

    def complete(state: TableState, proposal: Proposal) -> Proposal:
        seen.append((state.version, proposal.action))
        if len(seen) == 1:
            raise ConflictError("not now")
        return replace(proposal, prev_max=1)

    with pytest.raises(ConflictError, match="not now"):
        rewrite_here(store, base, plan, complete=complete)
    assert read_newest(store) == base
    after = rewrite_here(store, base, plan, complete=complete)
    assert seen == [(base.version, "compaction")] * 2
    check(store, after, VISIBLE)


def test_inputs_are_read_once_and_little_else(store: RetriedStore) -> None:
    state = build_table(store, "id string, text string", "id", properties={"granule_rows": 100, "chunkset_rows": 5_000})
    for first in range(8):
        texts = ({"id": f"k{number:05}", "text": f"{number * 2_654_435_761 % 2**32:064x}"} for number in range(first, 4_000, 8))
        state = append_rows(store, state, list(texts))
    apart = store.apart()
    plan = planned(apart, state)
    before = apart.meter.snapshot()
    written = written_here(apart, state, plan)
    used = apart.meter.snapshot() - before
    size, listed = sum(info.bytes for info in infos(store, state)), state.runs_of("files")
    assert (plan.bytes, len(plan.inputs), len(written.entries)) == (size, 8, 1)
    # Of each input the footer and all rows at once, being few; then the runs that name them.
    assert used.requests - used.put.requests == 8 + 8 + len(listed)
    assert used.bytes_read <= size + sum(run.bytes for run in listed)
    assert used.put.requests == 2, "a chunkset and its filters"


def test_what_is_hidden_whole_is_not_opened(store: RetriedStore) -> None:
    state = skip_rows(store, built(store), lambda row: number_of(row) < 24)
    gone = [file_key(info.partition, info.file_name) for info in infos(store, state) if info.last_key < b"k024"]
    plan = plan_compaction(Snapshot(store=store, state=state), files=gone)
    assert plan is not None
    store.delete([info.path for info in infos(store, state) if info.last_key < b"k024"])
    check(store, rewrite_here(store, state, plan), [number for number in VISIBLE if number >= 24])


@pytest.mark.parametrize("order", [None, ["n"]])
def test_a_crash_at_any_call_leaves_the_rows(order: list[str] | None) -> None:
    def make() -> RetriedStore:
        store = fresh()
        state = append_rows(store, build_table(store, "id string, host string, n int64", "id", rows(0, 3), indexes=None), rows(3, 6))
        skip_rows(store, state, lambda row: row["n"] == 4)
        return store

    def work(store: Any) -> object:
        snapshot = Snapshot(store=store, state=read_newest(store))
        plan = plan_compaction(snapshot, where="n >= 0") if order is None else plan_clustering(snapshot, order)
        assert plan is not None
        return rewrite_here(store, snapshot.state, plan)

    version, states = read_newest(make()).version, []
    for point in crash_everywhere(make, work):
        state = read_newest(point.store)
        states.append((state.version - version, state.totals.files))
        assert numbers(point.store, state) == [0, 1, 2, 3, 5], f"{point}"
    assert len(states) > 40
    assert set(states) == {(0, 2), (1, 1)}
    check(point.store, state, [0, 1, 2, 3, 5])
