"""Orphans: only names that are ours, only what no version needs and no living instant owns, only what is old enough."""

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.format.log_entry import PLAN_PREFIX, ROOT
from needlefish.format.run import path_of
from needlefish.model.schema import schema_from_text
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.adopt import commit_adoption, list_files
from needlefish.services.adopt.task import adopted
from needlefish.services.clean import CleanOptions, clean
from needlefish.services.shares import EntryRuns
from needlefish.store import RetriedStore, layered, open_store
from needlefish.store.shapes import MEMORY
from needlefish.table.create import define_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.services import execute_here, orphans, schedule_compaction
from needlefish.testing.tables import build_table, scan_table, write_rows
from needlefish.timeline import Start, read_newest, working
from needlefish.timeline.heartbeat import HEARTBEAT_PREFIX

NOW = CleanOptions(grace_seconds=0)
ATTEMPT = "0123456789abcdef"
NAMED = ATTEMPT + "a" * 32
UNNAMED = "b" * 32
OURS = [
    f"data/{NAMED}.parquet",
    f"data/day=2026-11-16/{NAMED}.parquet",
    f"{ROOT}metadata/files/{NAMED}.arrow",
    f"{ROOT}metadata/uncovered/by_id/{NAMED}.arrow",
    f"{ROOT}index/id/{NAMED}.postings",
    f"{ROOT}index/id/{NAMED}.cuckoo",
    f"{ROOT}work/{NAMED}/{NAMED}.arrow",
]
EARLY = [f"{PLAN_PREFIX}{ATTEMPT}.json", f"{HEARTBEAT_PREFIX}{ATTEMPT}", f"{HEARTBEAT_PREFIX}clock-{UNNAMED}"]
FOREIGN = [
    "data/report.parquet",
    f"data/{NAMED}.parquet.bak",
    f"data/{NAMED.upper()}.parquet",
    f"data/{NAMED}x.parquet",
    f"other/{NAMED}.parquet",
    f"{ROOT}metadata/files/notes.txt",
    f"{ROOT}index/id/{NAMED}.csv",
    f"{ROOT}work/readme",
    f"{PLAN_PREFIX}mine.json",
    f"{HEARTBEAT_PREFIX}somebody",
    "notes.md",
]


class Scene:
    def __init__(self, **properties: object) -> None:
        self.clock = FakeClock()
        self.bare = MemoryStore(self.clock)
        self.store = layered(self.bare, config=StoreConfig(uri=self.bare.uri), shape=MEMORY)
        rows = [{"id": number, "s": "x"} for number in range(5)]
        self.state = build_table(self.store, "id int64, s string", "id", rows, indexes=None, properties=properties)

    def put(self, *paths: str) -> None:
        for path in paths:
            self.bare.put(path, b"left behind")

    def clean(self, options: CleanOptions | None = None, runtime: Runtime = SYSTEM) -> set[str]:
        """What went."""
        before = set(self.bare.snapshot())
        self.state, result = clean(self.store, self.state, options, runtime)
        gone = before - set(self.bare.snapshot())
        assert set(result.paths) == gone
        return gone


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_orphans_of_all_kinds_go_and_foreign_files_stay(scene: Scene) -> None:
    scene.put(*OURS, *EARLY, *FOREIGN)
    scene.clock.advance(7_200)
    assert scene.clean() == {*OURS, *EARLY}
    assert set(FOREIGN) <= set(scene.bare.snapshot())


def test_young_ones_stay_for_the_grace_period(scene: Scene) -> None:
    scene.put(*OURS)
    scene.clock.advance(3_599)
    assert not scene.clean()
    scene.clock.advance(1)
    assert scene.clean() == set(OURS)


def test_without_grace_the_attempt_alone_decides(scene: Scene) -> None:
    scene.put(*OURS)
    with working(scene.store, scene.state, Start(action="upsert"), SYSTEM) as work:
        mine = [f"data/{work.runtime.new_id()}.parquet", f"{ROOT}work/{work.runtime.new_id()}/x.arrow"]
        scene.put(*mine)
        assert scene.clean(NOW) == set(OURS)
    assert scene.clean(NOW) == set(mine)


def test_what_is_put_before_the_log_speaks_of_it_gets_time(scene: Scene) -> None:
    scene.put(*EARLY)
    scene.clock.advance(119)
    assert not scene.clean(NOW)
    scene.clock.advance(1)
    assert scene.clean(NOW) == set(EARLY)


@pytest.mark.parametrize(("options", "seconds"), [(CleanOptions(), 3_600), (NOW, 0), (CleanOptions(grace_seconds=50), 50)])
def test_names_without_an_attempt_go_by_age_alone(scene: Scene, options: CleanOptions, seconds: int) -> None:
    path = f"data/{UNNAMED}.parquet"
    scene.put(path)
    if seconds:
        scene.clock.advance(seconds - 1)
        assert not scene.clean(options)
        scene.clock.advance(1)
    assert scene.clean(options) == {path}


def test_a_small_grace_of_the_table_does_not_reach_names_without_an_attempt() -> None:
    scene = Scene(grace_seconds=1.0)
    scene.put(path := f"data/{UNNAMED}.parquet")
    scene.clock.advance(3_000)
    assert not scene.clean()
    scene.clock.advance(600)
    assert scene.clean() == {path}


@pytest.mark.parametrize("ahead", [-86_400, 86_400])
def test_the_workers_clock_does_not_matter(scene: Scene, ahead: int) -> None:
    scene.put(*OURS)
    wrong = Runtime(clock=FakeClock(scene.clock.now_ms() + ahead * 1000))
    assert not scene.clean(None, wrong)
    scene.clock.advance(3_600)
    assert scene.clean(None, wrong) == set(OURS)


def test_what_a_version_names_is_no_orphan_however_old(scene: Scene) -> None:
    scene.clock.advance(10**6)
    assert not scene.clean(NOW)
    assert scan_table(scene.store, scene.state)[0].num_rows == 5


def test_rows_that_were_never_committed_go(scene: Scene) -> None:
    write_rows(scene.store, scene.state, [{"id": 7, "s": "y"}])
    left = orphans(scene.store, scene.state)
    assert left
    assert not scene.clean()
    scene.clock.advance(3_600)
    assert scene.clean() == left


def test_a_dry_run_names_the_objects_of_dead_attempts(scene: Scene) -> None:
    # Whoever holds it never leaves the block, as if it had been killed there.
    held = working(scene.store, scene.state, Start(action="upsert"), SYSTEM)
    work = held.__enter__()
    scene.put(path := f"data/{work.runtime.new_id()}.parquet")
    scene.clock.advance(7_200)
    _, result = clean(scene.store, scene.state, CleanOptions(dry_run=True))
    assert result.rolled_back == (f"upsert {work.instant}",)
    assert path in result.paths
    assert f"its attempt {work.claim.attempt} is dead" in str(result)
    scene.state, done = clean(scene.store, scene.state)
    assert done.rolled_back == result.rolled_back
    assert not orphans(scene.store, scene.state)
    assert read_newest(scene.store).instants == ()


def _flipped(store: RetriedStore, path: str) -> None:
    data = bytearray(store.get(path))
    data[len(data) // 2] ^= 1
    store.put(path, bytes(data))


@pytest.mark.parametrize("damage", [_flipped, lambda store, path: store.delete([path])])
def test_files_that_cannot_be_told_are_left_alone(scene: Scene, damage: Callable[[RetriedStore, str], None]) -> None:
    """A `files` run that cannot be read may name anything."""
    scene.put(*OURS)
    scene.clock.advance(7_200)
    damage(scene.store, path_of(scene.state.runs_of("files")[0]))
    before = set(scene.bare.snapshot())
    _, result = clean(scene.store, scene.state)
    assert before == set(scene.bare.snapshot())
    assert "orphans were not looked for" in str(result)


def test_an_adopted_file_goes_once_it_was_rewritten() -> None:
    """Until then it is a file of the table, even under a name that could be an orphan's."""
    clock = FakeClock()
    bare = MemoryStore(clock)
    store = layered(bare, config=StoreConfig(uri=bare.uri), shape=MEMORY)
    path = f"data/sales/{UNNAMED}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(range(5)), "s": ["x"] * 5}), sink)
    store.put(path, sink.getvalue().to_pybytes())
    definition = define_table(schema_from_text("id int64, s string"), "id", (), {"granule_rows": 4})
    runs = EntryRuns(definition, store, SYSTEM)
    entry = adopted(store, definition, next(iter(list_files(store))), SYSTEM)
    assert entry is not None
    runs.add(entry)
    state = commit_adoption(store, definition, [entry.info], runs.finish())
    clock.advance(7_200)
    expire = CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=0)
    state, _ = clean(store, state, expire)
    assert path in bare.snapshot()
    state, _ = upsert_table(store, state, [{"id": 1, "s": "y"}])
    state, plan = schedule_compaction(store, state)
    state, _ = execute_here(store, state, plan.id)
    assert path in bare.snapshot()
    state, result = clean(store, state, expire)
    assert path in result.paths
    assert path not in bare.snapshot()
    assert scan_table(store, state)[0].num_rows == 5


def test_unfinished_local_writes_go(tmp_path: Path) -> None:
    store = open_store(StoreConfig(uri=str(tmp_path)))
    state = build_table(store, "id int64", "id", [{"id": 1}])
    staged = tmp_path / "data" / f"{NAMED}.parquet#12345"
    staged.write_bytes(b"half")
    clean(store, state, NOW)
    # A put that is under way looks the same, so that no grace is too small for it.
    assert staged.exists()
    os.utime(staged, (1_000_000, 1_000_000))
    _, result = clean(store, state, NOW)
    assert not staged.exists()
    assert [(found.kind, found.objects) for found in result.removed] == [("unfinished write", 1)]
