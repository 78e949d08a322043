"""Cleaning by versions and by time: what goes, what stays, and what the table can do afterwards."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.errors import AlreadyExistsError, ConflictError, InvalidError, NotFoundError
from needlefish.format.files_record import encode_files
from needlefish.format.log_entry import CHECKPOINT_PREFIX, LATEST_PATH, LOG_PREFIX, checkpoint_path, encode_state, log_path
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetId
from needlefish.model.log import STEPS, TableState
from needlefish.runtime import SYSTEM
from needlefish.services.build_index import build_here, build_index
from needlefish.services.clean import CleanOptions, CleanResult, clean
from needlefish.services.merge import merge
from needlefish.services.rebuild import RebuildTask, commit_rebuild, rebuilt
from needlefish.services.recover import live_files
from needlefish.services.shares import Share
from needlefish.store import RetriedStore, layered, open_store
from needlefish.store.shapes import S3
from needlefish.table.create import create_table
from needlefish.table.evolve import Changes, evolve
from needlefish.table.history import read_history
from needlefish.table.partition.select import parse_partitions
from needlefish.table.point.declare import define_index
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.s3 import S3Server
from needlefish.testing.services import entries_of, execute_here, needed_objects, orphans, schedule_compaction
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table
from needlefish.timeline import Log, Proposal, Start, catch_up, read_newest, read_state_at, version_at_time, working

Row = dict[str, Any]
HOUR = 3_600.0
# All but the newest version, at once.
EXPIRE = CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=0)


class Scene:
    """A table in memory, whose store's time is the test's."""

    def __init__(self, rows: int = 8, **properties: object) -> None:
        self.clock = FakeClock()
        self.bare = MemoryStore(self.clock)
        self.store = layered(self.bare, config=StoreConfig(uri=self.bare.uri), shape=S3)
        given = {"granule_rows": 4, **properties}
        self.rows: dict[int, Row] = {}
        first = [{"id": number, "s": "old"} for number in range(rows)]
        self.state = build_table(self.store, "id int64, s string", "id", first, indexes=None, properties=given)
        self.rows = {row["id"]: row for row in first}

    def upsert(self, ids: Sequence[int], text: str) -> None:
        rows = [{"id": number, "s": text} for number in ids]
        self.state, _ = upsert_table(self.store, self.state, rows)
        self.rows |= {row["id"]: row for row in rows}

    def compact(self) -> None:
        state, plan = schedule_compaction(self.store, self.state)
        self.state, _ = execute_here(self.store, state, plan.id)

    def clean(self, options: CleanOptions | None = None) -> CleanResult:
        self.state, result = clean(self.store, self.state, options)
        return result

    def paths(self) -> set[str]:
        return set(self.bare.snapshot())

    def shown(self, state: TableState | None = None) -> dict[int, Row]:
        return shown(self.store, state or self.state)


def shown(store: RetriedStore, state: TableState) -> dict[int, Row]:
    rows = scan_table(store, state)[0].to_pylist()
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == len(rows) == state.totals.visible_rows
    return by_id


def changed_scene(**properties: object) -> tuple[Scene, dict[int, dict[int, Row]]]:
    """Some upserts, a compaction and an upsert after it, an hour apart; and what every version shows."""
    scene = Scene(**properties)
    for number in range(3):
        scene.clock.advance(HOUR)
        scene.upsert(range(number, number + 4), f"new {number}")
    scene.clock.advance(HOUR)
    scene.compact()
    scene.clock.advance(HOUR)
    scene.upsert([1, 30], "last")
    scene.clock.advance(HOUR)
    versions = range(scene.state.version + 1)
    return scene, {version: scene.shown(read_state_at(scene.store, version, scene.state)) for version in versions}


def all_versions_read(scene: Scene, known: dict[int, dict[int, Row]]) -> None:
    """Those from the oldest on show what they always did; older ones are not found."""
    for version, rows in known.items():
        if version < scene.state.oldest:
            with pytest.raises(
                NotFoundError, match=f"version {version} of .* was cleaned; the oldest readable version is {scene.state.oldest}"
            ):
                read_state_at(scene.store, version, scene.state)
        else:
            assert scene.shown(read_state_at(scene.store, version, scene.state)) == rows


def test_all_but_the_newest_version_goes() -> None:
    scene, known = changed_scene()
    result = scene.clean(EXPIRE)
    assert scene.state.oldest == result.oldest == max(known)
    all_versions_read(scene, known)
    assert scene.shown() == scene.rows
    assert not orphans(scene.store, scene.state)
    assert {found.kind for found in result.removed} == {"expired file", "old log entry", "old checkpoint"}
    assert not verify_table(Snapshot(store=scene.store, state=scene.state)).problems


@pytest.mark.parametrize("count", [1, 2, 3, 100])
def test_the_last_versions_that_changed_the_table_stay(count: int) -> None:
    scene, known = changed_scene()
    scene.clean(CleanOptions(retained_versions=count, retained_seconds=0, grace_seconds=0))
    changes = [entry.version for entry in entries_of(scene.store, scene.state) if entry.action not in STEPS]
    assert changes == sorted(changes)[-count:]
    assert scene.state.oldest == (changes[0] if count < 100 else 0)
    all_versions_read(scene, known)


@pytest.mark.parametrize("hours", [0.5, 1.5, 2.5, 3.5])
@pytest.mark.parametrize("what", ["retained_seconds", "grace_seconds"])
def test_what_was_newest_within_the_time_stays(hours: float, what: str) -> None:
    scene, known = changed_scene()
    times = {"retained_seconds": 0.0, "grace_seconds": 0.0, what: hours * HOUR}
    scene.clean(CleanOptions(retained_versions=1, **times))
    all_versions_read(scene, known)
    # By the store's time: what the table was at that moment is readable still, and nothing before it.
    moment_ms = scene.clock.now_ms() - round(hours * HOUR * 1000)
    newest_then = max(version for version in known if put_ms(scene, version) <= moment_ms)
    assert scene.state.oldest == newest_then


def put_ms(scene: Scene, version: int) -> int:
    """When an entry was put; entries that are gone are older than all that matters here."""
    try:
        return scene.store.head(log_path(version)).modified_ms
    except NotFoundError:
        return 0


def test_the_tables_own_properties_count() -> None:
    scene, known = changed_scene(retained_versions=2, retained_seconds=0.0, grace_seconds=0.0)
    scene.clean()
    assert 0 < scene.state.oldest < max(known)
    all_versions_read(scene, known)
    kept, _ = changed_scene()
    # A week is not over.
    assert not kept.clean().removed
    assert kept.state.oldest == 0


def test_nothing_to_do_leaves_no_trace() -> None:
    scene, _ = changed_scene()
    scene.clean(EXPIRE)
    before, version = scene.paths(), scene.state.version
    for _ in range(3):
        scene.clock.advance(HOUR)
        assert scene.clean(EXPIRE).objects == 0
    assert (scene.paths(), read_newest(scene.store).version) == (before, version)


def test_a_dry_run_says_what_would_go_and_changes_nothing() -> None:
    scene, _ = changed_scene()
    before = scene.bare.snapshot()
    planned = scene.clean(CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=0, dry_run=True))
    assert scene.bare.snapshot() == before
    assert "would remove" in str(planned)
    done = scene.clean(EXPIRE)
    assert (planned.removed, planned.paths, planned.oldest) == (done.removed, done.paths, done.oldest)
    assert set(done.paths) == set(before) - scene.paths()
    assert sum(len(before[path]) for path in done.paths) == done.bytes


def test_a_claim_holds_back_what_it_reads() -> None:
    scene, known = changed_scene()
    base = read_state_at(scene.store, 3, scene.state)
    with working(scene.store, base, Start(action="upsert"), SYSTEM) as work:
        scene.clean(EXPIRE)
        assert scene.state.oldest == 3
        all_versions_read(scene, known)
        work.end("done")
    scene.clean(EXPIRE)
    assert scene.state.oldest > 3
    with pytest.raises(ConflictError, match="version 3 was cleaned"), working(scene.store, base, Start(action="upsert"), SYSTEM):
        pass


def test_a_dead_claim_holds_nothing_back_for_long() -> None:
    scene, known = changed_scene()

    base = read_state_at(scene.store, 3, scene.state)
    manager = working(scene.store, base, Start(action="upsert"), SYSTEM)
    manager.__enter__()
    # Nobody leaves the block, and no beat follows the first one for as long as the test lets time pass.
    scene.clean(EXPIRE)
    assert scene.state.oldest == 3
    scene.clock.advance(HOUR)
    result = scene.clean(EXPIRE)
    assert [words.split()[0] for words in result.rolled_back] == ["upsert"]
    assert scene.state.oldest > 3
    all_versions_read(scene, known)


def test_a_plan_that_waits_holds_nothing_back() -> None:
    scene, known = changed_scene()
    scene.upsert([2, 3], "more")
    scene.state, plan = schedule_compaction(scene.store, scene.state, cancellable=False)
    scene.clock.advance(100 * HOUR)
    scene.clean(EXPIRE)
    assert scene.state.oldest > max(known)
    scene.state, _ = execute_here(scene.store, scene.state, plan.id)
    assert scene.shown() == scene.rows


def test_a_clean_beside_another_says_so() -> None:
    scene, _ = changed_scene()
    other = working(scene.store, scene.state, Start(action="clean", oldest=lambda _: 0), SYSTEM)
    with other, pytest.raises(ConflictError, match="is being cleaned by"):
        clean(scene.store, scene.state, EXPIRE)


def test_a_table_whose_log_begins_late_goes_on() -> None:
    scene, known = changed_scene()
    old = read_state_at(scene.store, 1, scene.state)
    older_handle = read_state_at(scene.store, scene.state.version - 1, scene.state)
    scene.clean(EXPIRE)
    assert read_newest(scene.store) == scene.state
    # A handle from before catches up over the gap, and so does a writer with such a handle: nothing lands in it.
    assert catch_up(scene.store, old) == scene.state
    assert catch_up(scene.store, older_handle) == scene.state
    assert catch_up(scene.store, None) == scene.state
    with pytest.raises(AlreadyExistsError):
        create_table(scene.store, scene.state.definition)
    with pytest.raises(ConflictError, match="cleaned"):
        upsert_table(scene.store, old, [{"id": 1, "s": "stale"}])
    for number in range(9):
        scene.upsert([number, 40 + number], f"after {number}")
    scene.state, _ = delete_table(scene.store, scene.state, [{"id": 40}])
    del scene.rows[40]
    scene.state = merge(scene.store, scene.state)
    scene.compact()
    assert scene.shown() == scene.rows
    assert find_table(scene.store, scene.state, id=[41])[0].to_pylist() == [scene.rows[41]]
    assert not verify_table(Snapshot(store=scene.store, state=scene.state)).problems
    shown_versions = [entry.version for entry in read_history(scene.store, scene.state)]
    assert min(shown_versions) == scene.state.oldest == max(known)


def test_a_time_before_the_oldest_version_was_cleaned() -> None:
    scene, _ = changed_scene()
    first_ms = read_state_at(scene.store, 1, scene.state).timestamp_ms
    newest_ms = scene.state.timestamp_ms
    version = scene.state.version
    scene.clean(EXPIRE)
    with pytest.raises(NotFoundError, match=f"was cleaned; the oldest readable version is {scene.state.oldest}"):
        version_at_time(scene.store, first_ms, scene.state)
    assert version_at_time(scene.store, newest_ms, scene.state) == version


def test_a_reader_of_a_cleaned_version_hears_that_it_was_cleaned() -> None:
    scene, known = changed_scene()
    held = read_state_at(scene.store, 3, scene.state)
    scene.clean(EXPIRE)
    scene.state = merge(scene.store, scene.state)
    words = f"version 3 of .* was cleaned; the oldest readable version is {scene.state.oldest}"
    with pytest.raises(NotFoundError, match=words):
        scan_table(scene.store, held)
    with pytest.raises(NotFoundError, match=words):
        find_table(scene.store, held, id=[1])
    with pytest.raises(NotFoundError, match=words):
        # Whoever has an old idea of what can be read.
        read_state_at(scene.store, 3, read_state_at(scene.store, max(known), scene.state))


def test_runs_that_merges_replaced_go() -> None:
    scene = Scene(rows=2)
    for number in range(10):
        scene.state = append_rows(scene.store, scene.state, [{"id": 10 + number, "s": "x"}])
    merged = merge(scene.store, scene.state)
    assert len(merged.runs) < len(scene.state.runs)
    scene.state = merged
    result = scene.clean(EXPIRE)
    assert {found.kind for found in result.removed} == {"old run", "old checkpoint"}
    assert not orphans(scene.store, scene.state)
    assert len(scene.shown()) == 12


def test_a_hint_that_leads_to_removed_entries_is_written_anew() -> None:
    scene, _ = changed_scene()
    stale = encode_state(read_state_at(scene.store, 2, scene.state))
    scene.store.put(LATEST_PATH, stale)
    scene.clean(EXPIRE)
    assert read_newest(scene.store) == scene.state
    # A writer that was stopped between its commit and its hint puts an old one later still: the next clean mends it.
    scene.store.put(LATEST_PATH, stale)
    assert catch_up(scene.store, read_newest(scene.store)) == scene.state
    scene.clean(EXPIRE)
    assert read_newest(scene.store) == scene.state


def test_old_entries_and_checkpoints_go_and_one_checkpoint_stands_for_them() -> None:
    scene = Scene(rows=1, checkpoint_interval=4)
    for number in range(12):
        scene.upsert([number], "x")
    scene.clean(EXPIRE)
    oldest, version = scene.state.oldest, scene.state.version
    # A writer may be about to put an entry behind the one that was newest a moment ago.
    scene.clock.advance(599)
    assert scene.clean(EXPIRE).objects == 0
    assert not verify_table(Snapshot(store=scene.store, state=scene.state)).problems
    scene.clock.advance(1)
    assert {found.kind for found in scene.clean(EXPIRE).removed} == {"old log entry"}
    assert scene.state.version == version
    there = scene.paths()
    assert min(path for path in there if path.startswith(LOG_PREFIX)) == log_path(oldest)
    numbered = sorted(path for path in there if path.startswith(CHECKPOINT_PREFIX) and path != LATEST_PATH)
    assert numbered[0] == checkpoint_path(oldest - 1)
    scene.store.delete([LATEST_PATH])
    assert read_newest(scene.store) == scene.state
    assert scene.shown() == scene.rows


def test_ten_thousand_files_cost_a_bounded_number_of_requests() -> None:
    scene = Scene(rows=1)
    one = next(iter(plan_scan(Snapshot(store=scene.store, state=scene.state), ScanRequest()).chunksets()))
    infos = [replace(one, id=ChunksetId(f"{number:048x}")) for number in range(10_000)]
    for info in infos:
        scene.bare.put(info.path, b"")
    run = put_run(scene.store, "files", encode_files(infos), SYSTEM)
    scene.state = Log(scene.store, "test").append(scene.state, lambda _: Proposal(action="append", runs_added=(run,)))
    scene.bare.put(f"data/{'f' * 48}.parquet", b"x")
    apart = scene.store.apart()
    scene.state, result = clean(apart, scene.state, EXPIRE)
    # Ten pages of files, some more for all else, and the blocks of one run of files, several to a request.
    usage = apart.meter.snapshot()
    assert usage.list.requests <= 11 + 12
    assert usage.requests <= 80
    assert [(found.kind, found.objects) for found in result.removed if not found.kind.startswith("old ")] == [("orphan file", 1)]
    assert needed_objects(scene.store, scene.state, [scene.state.version]) <= scene.paths()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"retained_versions": 0}, "retained_versions is 0"),
        ({"retained_versions": True}, "retained_versions is True"),
        ({"retained_seconds": -1}, "retained_seconds is -1"),
        ({"grace_seconds": "1h"}, "grace_seconds is '1h'"),
        ({"grace_seconds": float("nan")}, "grace_seconds is nan"),
    ],
)
def test_wrong_options_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        CleanOptions(**given)


def test_columns_and_indexes_come_and_runs_are_rebuilt_after_a_clean() -> None:
    scene, _ = changed_scene()
    scene.clean(EXPIRE)
    scene.state = evolve(scene.store, scene.state, Changes(add={"n": "int64"}))
    index = define_index(nf.PointIndex("s"), scene.state.definition.schema, scene.state.definition.properties)
    scene.state, _ = build_index(scene.store, scene.state, index, build_here(scene.store))
    scene.state, _ = upsert_table(scene.store, scene.state, [{"id": 1, "s": "evolved", "n": 7}])
    scene.clock.advance(HOUR)
    scene.clean(EXPIRE)
    snapshot = Snapshot(store=scene.store, state=scene.state)
    task = RebuildTask(kind="files", definition=scene.state.definition, store=scene.store.config)
    clues = live_files(snapshot, parse_partitions({}, snapshot.partition_columns))
    infos = tuple(rebuilt("files", scene.store, task.definition, clue).info for clue in clues)
    scene.state = commit_rebuild(scene.store, scene.state, "files", Share(infos=infos), whole=True).state
    scene.clock.advance(HOUR)
    result = scene.clean(EXPIRE)
    assert "old run" in {found.kind for found in result.removed}
    assert find_table(scene.store, scene.state, s=["evolved"])[0].to_pylist() == [{"id": 1, "s": "evolved", "n": 7}]
    assert scene.shown() == {number: {**row, "n": None} for number, row in scene.rows.items()} | {1: {"id": 1, "s": "evolved", "n": 7}}
    assert not verify_table(Snapshot(store=scene.store, state=scene.state)).problems


def test_a_clean_on_an_object_store(s3: S3Server) -> None:
    """Its times have whole seconds, and a deletion takes a thousand names."""
    store = open_store(StoreConfig(uri=f"s3://{s3.bucket}/clean", options=s3.options))
    state = build_table(store, "id int64, s string", "id", [{"id": number, "s": "old"} for number in range(8)], indexes=None)
    for number in range(2):
        state, _ = upsert_table(store, state, [{"id": number, "s": "new"}])
    state, plan = schedule_compaction(store, state)
    state, _ = execute_here(store, state, plan.id)
    store.put(f"data/{'a' * 48}.parquet", b"left behind")
    state, result = clean(store, state, EXPIRE)
    assert {"expired file", "orphan file"} <= {found.kind for found in result.removed}
    left = {path for path in orphans(store, state) if "/plans/" not in path}
    assert not left
    assert shown(store, read_newest(store)) == {number: {"id": number, "s": "new" if number < 2 else "old"} for number in range(8)}
