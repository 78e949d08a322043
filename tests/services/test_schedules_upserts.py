"""Two upserts at once, in every order of their store calls with a few switches: no row is lost, none is there twice."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, Store, layered
from needlefish.store.shapes import MEMORY
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.explorer import Explored, explore, explore_crashes
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Call, SimulatedCrash
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.schedule import Outcome, World
from needlefish.testing.scheduler import Worker
from needlefish.testing.switch_points import log_appends, shared_calls, unless_immutable_read
from needlefish.testing.tables import build_table, find_table, scan_table
from needlefish.timeline import read_newest

Row = dict[str, Any]
# Each replaces a row that the other does not, one that the other does too, and inserts one that the other does too.
CHANGES = (
    [{"id": 1, "s": "first"}, {"id": 2, "s": "first"}, {"id": 12, "s": "first"}],
    [{"id": 2, "s": "second"}, {"id": 3, "s": "second"}, {"id": 12, "s": "second"}],
)
OLD = [{"id": number, "s": "old"} for number in range(12)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an upsert says of itself."""

    version: int
    inserted: int
    replaced: int


@cache
def built() -> MemoryStore:
    store = MemoryStore(FakeClock())
    build_table(opened(store), "id int64, s string", "id", OLD, indexes=None)
    return store


def opened(store: Store) -> RetriedStore:
    return layered(store, config=StoreConfig(uri=store.uri), shape=MEMORY)


def make() -> World:
    clock = FakeClock()
    return World(store=built().copy(clock), clock=clock)


def upsert(world: World, worker: Worker) -> Done:
    store = worker.store()
    # Their clocks differ by hours, which nothing may depend on.
    runtime = worker.runtime(ahead_seconds=-7_200 * worker.number)
    _, result = upsert_table(store, read_newest(store), CHANGES[worker.number], runtime=runtime)
    assert result.version is not None
    return Done(version=result.version, inserted=result.inserted, replaced=result.replaced)


def shown(store: RetriedStore, state: TableState) -> dict[int, Row]:
    """Every visible row: a scan, a find and the totals agree, and no key is there twice."""
    rows = scan_table(store, state)[0].to_pylist()
    by_id = {row["id"]: row for row in rows}
    assert len(by_id) == len(rows) == state.totals.visible_rows
    found = find_table(store, state, id=list(range(14)))[0].to_pylist()
    assert sorted(found, key=lambda row: int(row["id"])) == sorted(rows, key=lambda row: int(row["id"]))
    return by_id


def applied(changes: list[list[Row]]) -> dict[int, Row]:
    return {row["id"]: row for rows in (OLD, *changes) for row in rows}


def in_order_of_versions(outcomes: list[Outcome]) -> list[tuple[Done, list[Row]]]:
    ended = [(outcome.result(), rows) for outcome, rows in zip(outcomes, CHANGES, strict=True) if outcome.error is None]
    return sorted(ended, key=lambda pair: int(pair[0].version))


def nothing_is_lost(world: World, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        outcome.result()
    store = opened(world.store)
    ended = in_order_of_versions(outcomes)
    assert shown(store, read_newest(store)) == applied([rows for _, rows in ended])
    assert [(done.inserted, done.replaced) for done, _ in ended] == [(1, 2), (0, 3)]


def nothing_is_lost_but_what_died(world: World, outcomes: list[Outcome]) -> None:
    died = isinstance(outcomes[0].error, SimulatedCrash)
    outcomes[1].result()
    store = opened(world.store)
    found = shown(store, read_newest(store))
    first, second = CHANGES
    # Who died may have become true without having heard of it, before the other or after it.
    allowed = [applied([second]), applied([first, second]), applied([second, first])]
    assert found in allowed if died else found == applied([rows for _, rows in in_order_of_versions(outcomes)])


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str, Explored], None]:
    """The number of schedules is shown even if all went well."""

    def show(what: str, explored: Explored) -> None:
        with capsys.disabled():
            print(f"\n{what}: {explored}")

    return show


@pytest.mark.parametrize(
    ("relevant", "switches", "skip_equal", "least"),
    [
        # The order of any two appends to the log, of which each upsert has at least one.
        (log_appends, None, False, 2),
        # All are run, those too that only swap calls that commute.
        (shared_calls, 1, False, 2 + 2 * 8),
        (unless_immutable_read, 2, True, 50),
    ],
)
def test_two_upserts_in_every_order(
    say: Callable[[str, Explored], None], relevant: Callable[[Call], bool], switches: int | None, skip_equal: bool, least: int
) -> None:
    explored = explore(make, [upsert, upsert], nothing_is_lost, switches=switches, relevant=relevant, skip_equal=skip_equal)
    say(f"upsert/upsert, {relevant.__name__}", explored)
    assert explored.schedules >= least


def test_one_of_two_upserts_dies_at_any_call(say: Callable[[str, Explored], None]) -> None:
    explored = explore_crashes(make, [upsert, upsert], nothing_is_lost_but_what_died, switches=0, relevant=shared_calls)
    say("upsert/upsert, one of them dies", explored)
    # It dies before and after each of its calls, before the other one begins or when it has ended.
    assert explored.schedules >= 2 * 2 * 20


def test_what_two_upserts_leave_verifies(say: Callable[[str, Explored], None]) -> None:
    def check(world: World, outcomes: list[Outcome]) -> None:
        store = opened(world.store)
        assert not verify_table(Snapshot(store=store, state=read_newest(store))).problems

    say("upsert/upsert, verified", explore(make, [upsert, upsert], check, switches=None, relevant=log_appends))
