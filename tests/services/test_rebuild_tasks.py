"""Rebuilding without an engine: what tasks make of files, which files count as live, and what the commit replaces."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, CorruptError, InvalidError
from needlefish.format.files_record import FILES_SCHEMA, encode_files
from needlefish.format.metadata_key import file_key
from needlefish.format.run import IS_DELETED, KEY, run_path
from needlefish.index import newest
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunKind, TableState, Totals
from needlefish.model.schema import schema_from_text
from needlefish.runtime import SYSTEM
from needlefish.services.rebuild import RebuildTask, Rebuilt, commit_rebuild, kind_from, without_gaps
from needlefish.services.recover import FileClue, clue_of, live_files
from needlefish.services.shares import SHARE_SCHEMA, Share, item_rows, joined
from needlefish.store import RetriedStore, open_store
from needlefish.table.create import define_table
from needlefish.table.evolve import Changes, evolve
from needlefish.table.partition.select import parse_partitions
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.damage import RUN_DAMAGES, flip
from needlefish.testing.faulty_store import crash_everywhere
from needlefish.testing.tables import append_rows, build_table, scan_table, write_rows
from needlefish.timeline import Log, Proposal, read_newest

SCHEMA = "id string, host string, n int64, x double"
_numbers = count()


def rows(first: int, end: int) -> list[dict[str, Any]]:
    return [{"id": f"k{n:03}", "host": "ab"[n % 2], "n": n or None, "x": float("nan") if n == 7 else n / 2} for n in range(first, end)]


@pytest.fixture
def store(tmp_path: Path) -> RetriedStore:
    return open_store(StoreConfig(uri=str(tmp_path / "table")))


def built(store: Any) -> TableState:
    options = {"partition_by": "host", "bloom_columns": "n", "properties": {"granule_rows": 4, "chunkset_rows": 10}}
    return append_rows(store, build_table(store, SCHEMA, "id", rows(0, 60), **options), rows(60, 80))


def infos(store: Any, state: TableState) -> list[ChunksetInfo]:
    return list(plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets())


def clues(store: Any, state: TableState, **partitions: object) -> list[FileClue]:
    snapshot = Snapshot(store=store, state=state)
    return live_files(snapshot, parse_partitions(partitions, snapshot.partition_columns))


def done(store: RetriedStore, state: TableState, kind: RunKind, found: Iterable[FileClue]) -> Share:
    """Two tasks over the clues, as an engine would run them."""
    task = RebuildTask(kind=kind, definition=state.definition, store=store.config)
    items = item_rows((clue.key, clue) for clue in found)
    half = items.num_rows // 2
    batches = [batch for part in (items.slice(0, half), items.slice(half)) for batch in task(part.to_batches())]
    return joined(pa.Table.from_batches(batches, schema=SHARE_SCHEMA))


def rebuilt(store: RetriedStore, state: TableState, kind: RunKind) -> Rebuilt:
    found = clues(store, state) if kind == "files" else [clue_of(info) for info in infos(store, state)]
    return commit_rebuild(store, state, kind, done(store, state, kind, found), whole=True)


def problems(store: Any, state: TableState) -> list[str]:
    return [f"{problem.object}: {problem.what}" for problem in verify_table(Snapshot(store=store, state=state)).problems]


@pytest.mark.parametrize("kind", ["files", "column_stats", "bloom_filters"])
def test_a_rebuild_of_sound_runs_gives_the_same_records(store: RetriedStore, kind: RunKind) -> None:
    state = built(store)
    before = records(store, state, kind)
    after = rebuilt(store, state, kind)
    assert len(after.removed) == len(state.runs_of(kind))
    assert {run.id for run in after.state.runs_of(kind)} == {run.id for run in after.added}
    assert records(store, after.state, kind) == before
    assert after.state.totals == state.totals
    assert problems(store, after.state) == []


def records(store: RetriedStore, state: TableState, kind: RunKind) -> list[dict[str, Any]]:
    found = newest.scan(store, Snapshot(store=store, state=state).runs(kind))
    return sorted(({**row, "timestamp": 0} for batch in found for row in batch.to_pylist()), key=lambda row: row[KEY])


@pytest.mark.parametrize("damage", RUN_DAMAGES)
def test_infos_are_recovered_from_the_files_themselves(store: RetriedStore, damage: str) -> None:
    state = built(store)
    before = infos(store, state)
    for run in state.runs_of("files"):
        RUN_DAMAGES[damage](store, run)
    after = rebuilt(store, state, "files").state
    assert infos(store, after) == before
    assert problems(store, after) == []


def test_filters_name_files_where_statistics_are_lost_too(store: RetriedStore) -> None:
    state = built(store)
    before = infos(store, state)
    for run in (*state.runs_of("files"), *state.runs_of("column_stats")):
        store.delete([run_path(run.kind, run.id)])
    after = rebuilt(store, state, "files").state
    assert infos(store, after) == before
    assert problems(store, rebuilt(store, after, "column_stats").state) == []


def test_only_the_damaged_half_needs_recovering(store: RetriedStore) -> None:
    """What is readable keeps what only a record knows; the rest learns it from the version of the run that names it."""
    state = built(store)
    lost, _ = state.runs_of("files")
    store.delete([run_path("files", lost.id)])
    known = {clue.info is not None: clue.prev_max for clue in clues(store, state)}
    assert known == {True: 0, False: 1}


def test_orphans_stay_out_and_losses_are_said(store: RetriedStore) -> None:
    state = built(store)
    write_rows(store, state, rows(80, 90))
    lost = state.runs_of("files")[0]
    for run in state.runs:
        if run.version == lost.version:
            store.delete([run_path(run.kind, run.id)])
    share = without_gaps(done(store, state, "files", clues(store, state)), state, whole=True)
    assert share.lost == (f"{lost.records} of {state.totals.files} files are named by no readable run",)
    after = commit_rebuild(store, state, "files", share, whole=True).state
    found, _ = scan_table(store, after)
    assert sorted(found["id"].to_pylist()) == [row["id"] for row in rows(0, 60)]
    assert after.totals == replace(after.totals, rows=60, files=len(share.infos))


def test_a_missing_data_file_keeps_its_record_and_is_said(store: RetriedStore) -> None:
    """Left out, its rows would be gone without a word; as it is, every scan says what is wrong."""
    state = built(store)
    path = infos(store, state)[0].path
    store.delete([path])
    share = done(store, state, "files", clues(store, state))
    assert share.lost == (f"{path}: the file is missing",)
    after = commit_rebuild(store, state, "files", share, whole=True).state
    assert problems(store, after) == [f"{path}: the object is missing"]


@pytest.mark.parametrize("kind", ["column_stats", "bloom_filters"])
def test_a_damaged_data_file_does_not_stop_the_others(store: RetriedStore, kind: RunKind) -> None:
    state = built(store)
    path = infos(store, state)[0].path
    flip(store, path, -20)
    share = done(store, state, kind, map(clue_of, infos(store, state)))
    assert share.lost == (f"{path}: the footer does not fit its checksum",)
    assert len(share.infos) == state.totals.files - 1


def test_a_changed_footer_is_not_blessed(store: RetriedStore) -> None:
    state = built(store)
    info = infos(store, state)[0]
    flip(store, info.path, -20)
    share = done(store, state, "files", clues(store, state))
    assert share.lost == (f"{info.path}: the footer does not fit its checksum",)
    assert info in share.infos


def test_wrong_infos_are_put_right(store: RetriedStore) -> None:
    state = built(store)
    wrong = replace(infos(store, state)[0], rows=3, granules=(), first_key=b"z", last_key=b"a")
    run = put_run(store, "files", encode_files([wrong]), SYSTEM)
    state = Log(store, "test").append(state, lambda _: Proposal(action="append", runs_added=(run,)))
    assert len(problems(store, state)) == 5
    assert problems(store, rebuilt(store, state, "files").state) == []


def tombstone(store: Any, info: ChunksetInfo) -> Any:
    row = dict.fromkeys(FILES_SCHEMA.names) | {KEY: file_key(info.partition, info.file_name), IS_DELETED: True}
    return put_run(store, "files", pa.Table.from_pylist([row], schema=FILES_SCHEMA), SYSTEM)


def removed(store: Any, state: TableState, info: ChunksetInfo) -> TableState:
    run = tombstone(store, info)
    gone = Totals(rows=-info.rows, files=-1, bytes=-info.bytes)
    return Log(store, "test").append(state, lambda _: Proposal(action="compaction", runs_added=(run,), added=gone))


def test_removed_files_do_not_come_back(store: RetriedStore) -> None:
    state = built(store)
    gone = infos(store, state)[0]
    state = removed(store, state, gone)
    store.delete([run_path("files", state.runs_of("files")[-1].id)])
    after = rebuilt(store, state, "files").state
    assert gone not in infos(store, after)
    assert len(infos(store, after)) == after.totals.files == state.totals.files


@pytest.mark.parametrize("kind", ["files", "column_stats", "bloom_filters"])
def test_a_removal_in_between_is_a_conflict(store: RetriedStore, kind: RunKind) -> None:
    state = built(store)
    found = clues(store, state) if kind == "files" else [clue_of(info) for info in infos(store, state)]
    share = done(store, state, kind, found)
    removed(store, state, infos(store, state)[0])
    with pytest.raises(ConflictError, match="rebuild again"):
        commit_rebuild(store, state, kind, share, whole=True)


@pytest.mark.parametrize("kind", ["files", "column_stats", "bloom_filters"])
def test_runs_that_others_committed_meanwhile_survive(store: RetriedStore, kind: RunKind) -> None:
    state = built(store)
    found = clues(store, state) if kind == "files" else [clue_of(info) for info in infos(store, state)]
    share = done(store, state, kind, found)
    between = append_rows(store, state, rows(80, 100))
    after = commit_rebuild(store, state, kind, share, whole=True).state
    assert after.version == between.version + 1
    assert scan_table(store, after)[0].num_rows == 100
    assert (problems(store, after), verify_table(Snapshot(store=store, state=after)).notes) == ([], ())


def test_some_partitions_are_made_anew_by_newer_records(store: RetriedStore) -> None:
    state = built(store)
    only = [clue_of(info) for info in infos(store, state) if info.partition == "host=a"]
    after = commit_rebuild(store, state, "bloom_filters", done(store, state, "bloom_filters", only), whole=False)
    assert after.removed == ()
    assert after.state.runs_of("bloom_filters")[0].version == after.state.version
    assert sum(run.records for run in after.added) == 2 * len(only)
    assert {clue.partition for clue in clues(store, state, host="a")} == {"host=a"}


def test_statistics_need_the_list_of_files(store: RetriedStore) -> None:
    state = built(store)
    run = state.runs_of("files")[0]
    store.delete([run_path("files", run.id)])
    with pytest.raises(CorruptError, match=run.id):
        rebuilt(store, state, "column_stats")


def test_an_empty_table_needs_no_version(store: RetriedStore) -> None:
    state = build_table(store, SCHEMA, "id")
    assert rebuilt(store, state, "files").state == state


def test_other_kinds_are_refused() -> None:
    with pytest.raises(InvalidError, match="kind is 'skip'; runs that can be rebuilt are files, column_stats, bloom_filters"):
        kind_from("skip", define_table(schema_from_text("id string"), "id", (), {}))


def test_a_crash_at_any_call_leaves_the_old_runs_or_the_new(tmp_path: Path) -> None:
    """The tasks have put their runs; what is left is one run of infos and the entry."""

    def make() -> RetriedStore:
        store = open_store(StoreConfig(uri=str(tmp_path / f"table{next(_numbers)}")))
        built(store)
        return store

    def work(store: Any) -> None:
        state = read_newest(store)
        commit_rebuild(store, state, "files", Share(infos=tuple(infos(store, state))), whole=True)

    versions = set()
    for point in crash_everywhere(make, work):
        state = read_newest(point.store)
        versions.add(state.version)
        assert scan_table(point.store, state)[0].num_rows == 80
        assert problems(point.store, state) == []
    assert versions == {2, 3}


@pytest.mark.parametrize("kind", ["files", "column_stats", "bloom_filters"])
def test_files_of_older_schemas_are_rebuilt_as_they_were_written(store: RetriedStore, kind: RunKind) -> None:
    """Renamed, widened, dropped and added columns: hashes and bounds follow the file's schema, and so does every reader."""
    schema = "id int32, n int32, x float, gone string"
    old = [{"id": n, "n": n * 3, "x": n / 4, "gone": "z"} for n in range(20)]
    state = build_table(store, schema, "id", old, bloom_columns=["n", "x"], properties={"granule_rows": 4})
    changes = Changes(rename={"n": "m"}, widen={"id": "int64", "n": "int64", "x": "double"}, drop=["gone"], add={"gone": "int64"})
    state = evolve(store, state, changes)
    state = append_rows(store, state, [{"id": n, "m": n * 3, "x": n / 4, "gone": n} for n in range(20, 40)])
    before = records(store, state, kind)
    if kind == "files":
        for run in state.runs_of("files"):
            RUN_DAMAGES["deleted"](store, run)
    after = rebuilt(store, state, kind).state
    gone = {"gone", 4} if kind == "column_stats" else set()
    assert [row for row in records(store, after, kind) if row.get("field_id") not in gone] == [
        row for row in before if row.get("field_id") not in gone
    ]
    assert problems(store, after) == []
    found, _ = scan_table(store, after, where="m >= 57")
    assert sorted(found["gone"].to_pylist(), key=str) == [*range(20, 40), None]
