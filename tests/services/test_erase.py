"""Erasure: a secret is gone from every object below the table, or the report says where it is and until when."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import needlefish as nf
from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.clean import CleanOptions, clean
from needlefish.services.erase import EraseOptions, ErasureReport, erase_rows
from needlefish.services.execute import Worker
from needlefish.services.here_worker import here_worker
from needlefish.services.merge import merge
from needlefish.services.rewrite import RewritePlan
from needlefish.store import RetriedStore, Store, layered
from needlefish.store.shapes import MEMORY
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag import tag_fields
from needlefish.table.task import Written
from needlefish.table.upsert.marks import Marks
from needlefish.table.upsert.plan import ChangePlan, ComparePlan
from needlefish.table.upsert.sources import Source
from needlefish.table.verify import verify_table
from needlefish.testing.changes import LocalJobs, upsert_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Fault, FaultyStore, SimulatedCrash, at
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.services import execute_here, schedule_compaction
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table
from needlefish.timeline import read_newest

Row = dict[str, Any]
SECRET = "zz-secret-7431"
# Above and below all others, so that statistics have it.
MAIL = "zzz-secret@example.org"
NOW = EraseOptions(expire=True, grace_seconds=0)
WEEK = 7 * 86_400


class Scene:
    def __init__(self, **properties: object) -> None:
        self.clock = FakeClock()
        self.bare = MemoryStore(self.clock)
        self.store = opened(self.bare)
        given = {"compression": "none", "granule_rows": 4, **properties}
        rows = [row(number) for number in range(6)]
        self.state = build_table(
            self.store,
            "id string, mail string, day string",
            "id",
            [*rows, row(SECRET, MAIL)],
            partition_by="day",
            bloom_columns="mail",
            indexes=[nf.PointIndex("mail"), nf.PointIndex("id", kind="cuckoo")],
            properties=given,
        )
        # The secret in several files and versions, visible and hidden, in files that are gone already, and in merged runs.
        for number in range(3):
            self.upsert([row(SECRET, MAIL + str(number)), row(number, "changed")])
        state, plan = schedule_compaction(self.store, self.state)
        self.state, _ = execute_here(self.store, state, plan.id)
        self.upsert([row(SECRET, MAIL), row(20, "new")])
        self.state = append_rows(self.store, self.state, [row(40, "other", "d2")])
        self.rows = self.shown()
        del self.rows[SECRET]

    def upsert(self, rows: list[Row]) -> None:
        self.state, _ = upsert_table(self.store, self.state, rows)

    def erase(self, options: EraseOptions, keys: list[str] | None = None) -> ErasureReport:
        self.state, report = erase(self.store, self.state, keys or [SECRET], options)
        return report

    def shown(self) -> dict[str, Row]:
        rows = scan_table(self.store, self.state)[0].to_pylist()
        assert len({found["id"] for found in rows}) == len(rows) == self.state.totals.visible_rows
        return {found["id"]: found for found in rows}


def row(number: object, mail: str = "m", day: str = "d1") -> Row:
    return {"id": str(number), "mail": mail, "day": day}


def opened(store: Store) -> RetriedStore:
    return layered(store, config=StoreConfig(uri=store.uri, retry=RetryPolicy(attempts=1)), shape=MEMORY)


def erase(
    store: RetriedStore, state: TableState, keys: list[str], options: EraseOptions, runtime: Runtime = SYSTEM
) -> tuple[TableState, ErasureReport]:
    schema = pa.schema([field.to_arrow() for field in tag_fields(state.definition)])
    rows = pa.Table.from_pylist([row(key) for key in keys], schema=schema)
    jobs = LocalJobs(rows=rows, store=store, deletes=True)
    return erase_rows(store, state, jobs, lambda: here_worker(store), options, runtime)


def holding(bare: MemoryStore, text: str) -> list[str]:
    """Objects that have the text in their bytes, or in the frames that Arrow compressed."""
    return [path for path, data in bare.snapshot().items() if text.encode() in data + _unpacked(path, data)]


def _unpacked(path: str, data: bytes) -> bytes:
    if not path.endswith(".arrow"):
        return b""
    try:
        rows = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    except pa.ArrowInvalid:
        rows = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    return repr(rows.to_pylist()).encode()


def test_the_secret_is_where_one_thinks() -> None:
    """The test below could not fail otherwise."""
    scene = Scene()
    places = {path.split("/")[1 if path.startswith("data") else 2] for path in holding(scene.bare, "secret")}
    assert {"day=d1", "files", "column_stats"} <= places


def test_nothing_has_the_secret_after_an_erasure_that_expires_versions() -> None:
    scene = Scene()
    report = scene.erase(NOW)
    assert report.complete, str(report)
    assert (report.keys, report.deleted) == (1, 1)
    assert report.files >= 3
    assert holding(scene.bare, "secret") == []
    assert scene.shown() == scene.rows
    assert find_table(scene.store, scene.state, id=[SECRET])[0].num_rows == 0
    assert find_table(scene.store, scene.state, mail=[MAIL])[0].num_rows == 0
    assert find_table(scene.store, scene.state, id=["40", "1"])[0].num_rows == 2
    assert not verify_table(Snapshot(store=scene.store, state=scene.state)).problems
    assert "nothing remains" in str(report)
    shown = json.loads(json.dumps(report.to_dict()))
    assert shown["complete"] is True
    assert {place["name"] for place in shown["places"]} >= {
        "rows",
        "data files",
        "statistics",
        "bloom filters",
        "point indexes",
        "skips",
        "older versions",
    }


def test_with_retention_the_report_says_what_remains_and_a_later_clean_ends_it() -> None:
    scene = Scene(retained_versions=1)
    report = scene.erase(EraseOptions())
    assert not report.complete
    by_name = {place.name: place for place in report.places}
    assert by_name["rows"].remains == by_name["statistics"].remains == by_name["point indexes"].remains == 0
    assert by_name["data files"].remains > 0
    assert by_name["older versions"].remains > 0
    assert holding(scene.bare, "secret")
    assert scene.shown() == scene.rows
    until_ms = max(place.until_ms or 0 for place in report.places)
    assert until_ms == scene.clock.now_ms() + WEEK * 1000
    assert all(not place.changes for place in report.places)
    assert "until a clean after" in str(report)
    scene.clock.advance(WEEK - 1)
    scene.state, _ = clean(scene.store, scene.state)
    assert holding(scene.bare, "secret")
    scene.clock.advance(1)
    scene.state, _ = clean(scene.store, scene.state)
    assert holding(scene.bare, "secret") == []
    assert scene.shown() == scene.rows


def test_versions_to_come_are_part_of_until() -> None:
    scene = Scene(retained_versions=5, retained_seconds=0.0, grace_seconds=0.0)
    report = scene.erase(EraseOptions())
    changes = max(place.changes for place in report.places)
    assert changes > 0
    assert f"{changes} more changes" in str(report)
    for number in range(changes):
        assert holding(scene.bare, "secret")
        scene.upsert([row(50 + number)])
        scene.state, _ = clean(scene.store, scene.state)
    assert holding(scene.bare, "secret") == []


def test_a_grace_period_is_kept_for_readers() -> None:
    scene = Scene()
    report = scene.erase(EraseOptions(expire=True, grace_seconds=60))
    assert not report.complete
    assert {place.until_ms for place in report.places if place.remains} == {scene.clock.now_ms() + 60_000}
    scene.clock.advance(60)
    scene.state, _ = clean(scene.store, scene.state, CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=60))
    assert holding(scene.bare, "secret") == []


def test_a_key_that_was_deleted_before_is_erased_all_the_same() -> None:
    scene = Scene()
    scene.state, _ = upsert_table(scene.store, scene.state, pa.Table.from_pylist([{**row(SECRET, MAIL), "gone": True}]), deleted_by="gone")
    report = scene.erase(NOW)
    assert (report.deleted, report.complete) == (0, True)
    assert holding(scene.bare, "secret") == []


def test_keys_that_nobody_has_cost_no_rewrite() -> None:
    scene = Scene()
    report = scene.erase(EraseOptions(), ["nobody"])
    assert (report.deleted, report.files) == (0, 0)
    assert scene.shown().keys() == scene.rows.keys() | {SECRET}


def test_an_erasure_of_everything_leaves_an_empty_table() -> None:
    scene = Scene()
    keys = [*scene.rows, SECRET]
    report = erase(scene.store, scene.state, keys, NOW)[1]
    # One of them is in another partition than the keys say.
    scene.state = read_newest(scene.store)
    assert report.complete, str(report)
    assert scene.shown().keys() == {"40"}
    assert not verify_table(Snapshot(store=scene.store, state=scene.state)).problems


class Meddled:
    """Fills the seam `Jobs`; somebody upserts before the keys are looked for once more."""

    def __init__(self, store: RetriedStore, rows: pa.Table, meddle: Row) -> None:
        self.inner = LocalJobs(rows=rows, store=store, deletes=True)
        self.meddle = meddle
        self.looks = 0

    def write(self, plan: ChangePlan) -> Written:
        return self.inner.write(plan)

    def keys(self, plan: ChangePlan) -> Written:
        self.looks += 1
        if self.looks == 2:
            upsert_table(self.inner.store, read_newest(self.inner.store), [self.meddle])
        return self.inner.keys(plan)

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks:
        return self.inner.compare(sources, plan)


def test_a_row_that_comes_back_meanwhile_is_not_touched() -> None:
    """It is a new row, of whoever wrote it; what was erased is what there was."""
    scene = Scene()
    keys = pa.Table.from_pylist([{"id": SECRET, "day": "d1"}])
    jobs = Meddled(scene.store, keys, row(SECRET, "again"))
    state, _ = erase_rows(scene.store, scene.state, jobs, lambda: here_worker(scene.store), NOW)
    scene.state = read_newest(scene.store)
    assert state.version == scene.state.version
    assert scene.shown() == scene.rows | {SECRET: row(SECRET, "again")}
    assert holding(scene.bare, MAIL) == []


def test_writers_and_plans_in_the_way_are_got_over() -> None:
    scene = Scene()
    scene.state, plan = schedule_compaction(scene.store, scene.state)
    keys = pa.Table.from_pylist([{"id": SECRET, "day": "d1"}])
    calls = 0

    def workers() -> Worker:
        nonlocal calls
        calls += 1
        if calls == 1:
            # Hides a row of a file that the plan is about to read.
            upsert_table(scene.store, read_newest(scene.store), [row("1", "meanwhile")])
            worker = here_worker(scene.store)

            def write(state: TableState, plan: RewritePlan, runtime: Runtime) -> Written:
                written = worker.write(state, plan, runtime)
                upsert_table(scene.store, read_newest(scene.store), [row("2", "meanwhile")])
                return written

            return Worker(write=write)
        return here_worker(scene.store)

    jobs = LocalJobs(rows=keys, store=scene.store, deletes=True)
    scene.state, report = erase_rows(scene.store, scene.state, jobs, workers, NOW)
    assert calls > 1
    assert report.complete, str(report)
    assert scene.state.instant(plan.id) is None
    assert holding(scene.bare, "secret") == []
    assert scene.shown() == scene.rows | {"1": row("1", "meanwhile"), "2": row("2", "meanwhile")}


def test_an_erasure_that_dies_is_finished_by_another() -> None:
    finished = 0
    for number in range(20, 400, 23):
        scene = Scene()
        faulty = opened(FaultyStore(scene.bare, at({number: Fault.CRASH_AFTER})))
        try:
            erase(faulty, read_newest(scene.store), [SECRET], NOW, Runtime(threads=False))
        except SimulatedCrash:
            scene.clock.advance(7_200)
            scene.state = read_newest(scene.store)
            report = scene.erase(NOW)
            assert report.complete, str(report)
        else:
            finished += 1
            scene.state = read_newest(scene.store)
        assert holding(scene.bare, "secret") == []
        assert scene.shown() == scene.rows
        if finished:
            break
    assert number > 60


def test_runs_are_scrubbed_after_merges_too() -> None:
    scene = Scene()
    for number in range(8):
        scene.state = append_rows(scene.store, scene.state, [row(60 + number, "more")])
    scene.state = merge(scene.store, scene.state)
    scene.rows = scene.shown()
    del scene.rows[SECRET]
    assert scene.erase(NOW).complete
    assert holding(scene.bare, "secret") == []
    assert scene.shown() == scene.rows


@pytest.mark.parametrize(("given", "words"), [({"expire": "yes"}, "expire is 'yes'"), ({"grace_seconds": -1}, "grace_seconds is -1")])
def test_wrong_options_are_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        EraseOptions(**given)
