"""A clean beside other work, in every order of their store calls with a switch, and in every order of their log appends.

Whatever the order: every row is there once, and nothing that a readable version or a live instant needs is gone.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, FencedError, NotFoundError
from needlefish.model.instant import InstantId
from needlefish.model.log import TableState
from needlefish.services.clean import CleanOptions, clean
from needlefish.store import RetriedStore, Store, layered
from needlefish.store.shapes import MEMORY
from needlefish.testing.changes import upsert_table
from needlefish.testing.explorer import Explored, explore
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.schedule import Outcome, World
from needlefish.testing.scheduler import Worker
from needlefish.testing.services import completions, execute_here, needed_objects, schedule_compaction
from needlefish.testing.switch_points import every_call, log_appends
from needlefish.testing.tables import build_table, find_table, scan_table
from needlefish.timeline import read_newest

Row = dict[str, Any]
OLD = {number: {"id": number, "s": "new" if number < 3 else "old"} for number in range(6)}
CHANGED = [{"id": 1, "s": "changed"}, {"id": 9, "s": "changed"}]
EXPIRE = CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=0)
# Schedules that differ only in the order of calls that commute are run once. A clean makes so many calls that tests have one switch
# fewer than `make schedules`.
ALL = bool(os.environ.get("NEEDLEFISH_ALL_SCHEDULES"))
ORDERS = [
    pytest.param(every_call, 2 if ALL else 1, id="every call"),
    pytest.param(log_appends, None, id="every order of log appends"),
]


@dataclass(frozen=True, kw_only=True)
class Scene(World):
    plan: InstantId


def opened(store: Store) -> RetriedStore:
    return layered(store, config=StoreConfig(uri=store.uri), shape=MEMORY)


@cache
def built() -> tuple[MemoryStore, str]:
    """A table with files that a compaction has rewritten, an orphan, and a plan that waits."""
    bare = MemoryStore(FakeClock())
    store = opened(bare)
    rows = [{"id": number, "s": "old"} for number in range(6)]
    properties = {"granule_rows": 4, "checkpoint_interval": 1000}
    state = build_table(store, "id int64, s string", "id", rows, indexes=(), properties=properties)
    state, _ = upsert_table(store, state, [{"id": number, "s": "new"} for number in range(2)])
    state, plan = schedule_compaction(store, state)
    state, _ = execute_here(store, state, plan.id)
    state, _ = upsert_table(store, state, [{"id": 2, "s": "new"}])
    _, plan = schedule_compaction(store, state)
    bare.put(f"data/{'a' * 48}.parquet", b"left behind")
    return bare, plan.id


def make() -> Scene:
    bare, plan = built()
    clock = FakeClock()
    return Scene(store=bare.copy(clock), clock=clock, plan=InstantId(plan))


def cleaning(scene: Scene, worker: Worker) -> object:
    store = worker.store()
    return clean(store, read_newest(store), EXPIRE, worker.runtime(ahead_seconds=7_200 * worker.number))[1]


def upserting(scene: Scene, worker: Worker) -> object:
    store = worker.store()
    return upsert_table(store, read_newest(store), CHANGED, runtime=worker.runtime(ahead_seconds=-7_200))[1]


def executing(scene: Scene, worker: Worker) -> object:
    store = worker.store()
    return execute_here(store, read_newest(store), scene.plan, worker.runtime(ahead_seconds=7_200))[1]


def finding(scene: Scene, worker: Worker) -> object:
    store = worker.store()
    return find_table(store, read_newest(store), id=[1])[0].to_pylist()


def rows_of(store: RetriedStore, state: TableState) -> dict[int, Row]:
    rows = scan_table(store, state)[0].to_pylist()
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == len(rows) == state.totals.visible_rows
    return by_id


def all_is_right(scene: Scene, outcomes: list[Outcome], *, changed: bool = False) -> TableState:
    store = opened(scene.store)
    state = read_newest(store)
    for outcome in outcomes:
        if outcome.error is not None and not isinstance(outcome.error, ConflictError | FencedError):
            outcome.result()
    assert rows_of(store, state) == OLD | ({row["id"]: row for row in CHANGED} if changed else {})
    there = {found.path for found in scene.store.list()}
    assert needed_objects(store, state) <= there
    return state


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Explored], None]:
    """The number of schedules is shown even if all went well."""

    def show(what: str, explored: Explored) -> None:
        with capsys.disabled():
            print(f"\n{what}: {explored}")

    return show


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
def test_clean_and_upsert(relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    def check(scene: Scene, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            outcome.result()
        all_is_right(scene, outcomes, changed=True)

    say("clean beside upsert", explore(make, [cleaning, upserting], check, switches=switches, relevant=relevant, skip_equal=True))


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
def test_a_number_of_the_log_is_never_given_twice(relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    """A writer has seen the end of the log; somebody commits there, and cleans. The writer must find its number taken."""

    def changing_and_cleaning(scene: Scene, worker: Worker) -> object:
        store, runtime = worker.store(), worker.runtime()
        state, _ = upsert_table(store, read_newest(store), [{"id": 4, "s": "other"}], runtime=runtime)
        return clean(store, state, EXPIRE, runtime)[1]

    def check(scene: Scene, outcomes: list[Outcome]) -> None:
        store = opened(scene.store)
        state = read_newest(store)
        conflicts = [outcome.error for outcome in outcomes if outcome.error is not None]
        assert all(isinstance(error, ConflictError) for error in conflicts)
        # Refused if what it was about to read is gone; else it is there.
        changed = {} if outcomes[1].error is not None else {row["id"]: row for row in CHANGED}
        assert rows_of(store, state) == OLD | {4: {"id": 4, "s": "other"}} | changed
        assert needed_objects(store, state) <= {found.path for found in scene.store.list()}

    workers = [changing_and_cleaning, upserting]
    say("upsert and clean beside upsert", explore(make, workers, check, switches=switches, relevant=relevant, skip_equal=True))


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
def test_clean_and_execute(relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    def check(scene: Scene, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            outcome.result()
        state = all_is_right(scene, outcomes)
        # It may be too old to be seen, if the clean came after it.
        assert len(completions(opened(scene.store), state, scene.plan)) <= 1
        assert state.instant(scene.plan) is None

    say("clean beside execute", explore(make, [cleaning, executing], check, switches=switches, relevant=relevant, skip_equal=True))


@pytest.mark.parametrize(("relevant", "switches"), ORDERS)
def test_clean_and_clean(relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    def check(scene: Scene, outcomes: list[Outcome]) -> None:
        assert any(outcome.error is None for outcome in outcomes)
        state = all_is_right(scene, outcomes)
        assert state.oldest == state.cleaned > 0

    say("clean beside clean", explore(make, [cleaning, cleaning], check, switches=switches, relevant=relevant, skip_equal=True))


@pytest.mark.parametrize(("relevant", "switches"), ORDERS[:1])
def test_clean_and_find(relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    """A reader of the newest version never notices; without a plan or a writer there is no older one to hold."""

    def check(scene: Scene, outcomes: list[Outcome]) -> None:
        assert outcomes[1].result() == [OLD[1]]
        all_is_right(scene, outcomes)

    say("clean beside find", explore(make, [cleaning, finding], check, switches=switches, relevant=relevant, skip_equal=True))


@pytest.mark.parametrize(("relevant", "switches"), ORDERS[:1])
def test_clean_and_a_find_of_an_old_version(relevant: Any, switches: int | None, say: Callable[[str, Explored], None]) -> None:
    """Without a grace period it may be gone: then the reader hears just that, and never sees half of it."""

    def finding_old(scene: Scene, worker: Worker) -> object:
        store = worker.store()
        held = read_newest(store)
        upsert_table(store, held, CHANGED, runtime=worker.runtime())
        return scan_table(store, held)[0].sort_by("id").to_pylist()

    def check(scene: Scene, outcomes: list[Outcome]) -> None:
        if isinstance(outcomes[1].error, NotFoundError):
            assert "was cleaned" in str(outcomes[1].error)
        else:
            assert outcomes[1].result() == [OLD[number] for number in OLD]
        all_is_right(scene, [outcomes[0]], changed=True)

    say("clean beside find", explore(make, [cleaning, finding_old], check, switches=switches, relevant=relevant, skip_equal=True))
