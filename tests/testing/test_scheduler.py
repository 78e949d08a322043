"""Toy workers whose schedules can be counted, whose bugs are known, and who wait, die, hang or misbehave."""

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from math import comb, factorial, prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.errors import AlreadyExistsError, NotFoundError
from needlefish.format.log_entry import log_path
from needlefish.runtime import in_background, in_parallel
from needlefish.testing.explorer import Explored, explore, explore_crashes, replay
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Call, Fault, SimulatedCrash, at
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.schedule import Abandoned, Limits, Outcome, Schedule, ScheduleError, World
from needlefish.testing.scheduler import Run, Worker
from needlefish.testing.switch_points import every_call, log_appends, shared_calls, unless_immutable_read

Toy = Callable[[World, Worker], object]


def make() -> World:
    return World(store=MemoryStore())


def puts(calls: int, path: str = "") -> Toy:
    """A worker of so many calls, which disturb nobody."""

    def work(world: World, worker: Worker) -> int:
        for number in range(calls):
            worker.bare.put(path or f"{worker.number}/{number}", b"%d" % worker.number)
        return worker.number

    return work


def no_check(world: World, outcomes: list[Outcome]) -> None:
    assert [outcome.result() for outcome in outcomes] == list(range(len(outcomes)))


def schedules_of_two(first: int, second: int, switches: int) -> int:
    """With exactly k switches, who begins is cut at ceil(k/2) of the places between its calls, the other at floor(k/2)."""
    more, fewer = (lambda k: -(-k // 2)), (lambda k: k // 2)
    return sum(
        comb(first - 1, more(k)) * comb(second - 1, fewer(k)) + comb(second - 1, more(k)) * comb(first - 1, fewer(k))
        for k in range(switches + 1)
    )


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 4), (2, 2), (3, 5), (6, 4)])
@pytest.mark.parametrize("switches", range(5))
def test_every_schedule_of_two_is_run_once(first: int, second: int, switches: int) -> None:
    seen: list[tuple[int, ...]] = []

    def note(world: World, worker: Worker) -> int:
        for _ in range((first, second)[worker.number]):
            worker.bare.put("x", b"")
            order.append(worker.number)
        return worker.number

    def check(world: World, outcomes: list[Outcome]) -> None:
        no_check(world, outcomes)
        seen.append(tuple(order))
        order.clear()

    order: list[int] = []
    explored = explore(make, [note, note], check, switches=switches)
    assert explored.schedules == len(seen) == len(set(seen)) == schedules_of_two(first, second, switches)
    assert (explored.calls, explored.points) == (len(seen) * (first + second),) * 2


@pytest.mark.parametrize("calls", [(2, 2), (3, 4), (2, 2, 2), (1, 2, 3), (1, 1, 1, 1)])
def test_without_a_bound_every_interleaving_is_run(calls: tuple[int, ...]) -> None:
    explored = explore(make, [puts(number) for number in calls], no_check, switches=None)
    assert explored.schedules == factorial(sum(calls)) // prod(map(factorial, calls))


def test_schedules_with_fewer_switches_come_first() -> None:
    turns: list[int] = []

    def check(world: World, outcomes: list[Outcome]) -> None:
        data = [name.partition("/")[0] for name in order]
        turns.append(sum(left != right for left, right in pairwise(data)))
        order.clear()

    def note(world: World, worker: Worker) -> None:
        for number in range(3):
            worker.bare.put(f"{worker.number}/{number}", b"")
            order.append(f"{worker.number}/{number}")

    order: list[str] = []
    explore(make, [note, note], check, switches=4)
    # A chosen switch makes one more change of the floor than there is at the end of a worker.
    assert sorted(turns) == turns
    assert set(turns) == {1, 2, 3, 4, 5}


def count_up(world: World, worker: Worker) -> None:
    """Read, add one, write: an update can be lost."""
    try:
        value = int(worker.bare.get("counter"))
    except NotFoundError:
        value = 0
    worker.bare.put("counter", b"%d" % (value + 1))


def count_up_safely(world: World, worker: Worker) -> int:
    """The next number that nobody has."""
    number = 0
    while True:
        try:
            worker.bare.put_if_absent(log_path(number), b"%d" % worker.number)
            return number
        except AlreadyExistsError:
            number += 1


def is_two(world: World, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        outcome.result()
    assert world.store.get("counter") == b"2"


def all_have_their_own(world: World, outcomes: list[Outcome]) -> None:
    numbers = {outcome.result(): b"%d" % number for number, outcome in enumerate(outcomes)}
    assert sorted(numbers) == list(range(len(outcomes)))
    assert {number: world.store.get(log_path(number)) for number in numbers} == numbers


def test_a_lost_update_is_found_and_can_be_replayed() -> None:
    assert explore(make, [count_up, count_up], is_two, switches=0).schedules == 2
    with pytest.raises(AssertionError) as caught:
        explore(make, [count_up, count_up], is_two, switches=1)
    notes = "\n".join(caught.value.__notes__)
    pasted: Schedule = eval(re.search(r"schedule=(.*)", notes).group(1))  # type: ignore[union-attr]
    assert pasted == ((0, 1), (1, 2), (0, 1))
    assert re.findall(r"\d: \w+ counter", notes) == ["0: get counter", "1: get counter", "1: put counter", "0: put counter"]
    with pytest.raises(AssertionError, match="b'1'"):
        replay(make, [count_up, count_up], is_two, pasted)
    replay(make, [count_up, count_up], is_two, ((0, 2), (1, 2)))


def test_conditional_puts_lose_nothing() -> None:
    assert explore(make, [count_up_safely] * 2, all_have_their_own, switches=None).schedules == 2
    # Whoever is first has done with it; the other two try 0, and one of them 2: three ways for each of them to begin.
    assert explore(make, [count_up_safely] * 3, all_have_their_own, switches=None, relevant=log_appends).schedules == 3 * 2 * 3


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ((), "000111"),
        (((1, None),), "111000"),
        (((1, 2), (0, 1)), "110100"),
        (((0, 1), (1, 1), (0, 1), (1, 1), (0, 1), (1, 1)), "010101"),
        (((0, 2), (1, None), (0, None)), "001110"),
        # Who has less left than it may do ends its turn there.
        (((0, 9), (1, 9)), "000111"),
    ],
)
def test_schedules_written_by_hand(schedule: Schedule, expected: str) -> None:
    run = replay(make, [puts(3), puts(3)], no_check, schedule)
    assert "".join(str(event.worker) for event in run.events) == expected
    again = replay(make, [puts(3), puts(3)], no_check, run.schedule)
    assert (again.events, again.schedule) == (run.events, run.schedule)


def test_a_schedule_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ScheduleError, match="worker 2 cannot have the floor after 1 points"):
        replay(make, [puts(3), puts(3)], no_check, ((0, 1), (2, 1)))


def test_only_relevant_calls_are_points() -> None:
    def work(world: World, worker: Worker) -> int:
        worker.bare.put(f"data/{worker.number}", b"")
        worker.bare.get(f"data/{worker.number}")
        worker.bare.put("hint", b"")
        list(worker.bare.list("data/"))
        worker.bare.delete([f"_needlefish/metadata/files/{worker.number}"])
        worker.bare.put_if_absent(log_path(worker.number), b"")
        return worker.number

    found = {
        relevant.__name__: len(replay(make, [work], no_check, (), relevant=relevant).events)
        for relevant in (every_call, unless_immutable_read, shared_calls, log_appends)
    }
    assert found == {"every_call": 6, "unless_immutable_read": 5, "shared_calls": 2, "log_appends": 1}


def test_who_sleeps_hands_over_and_time_passes() -> None:
    def wait(world: World, worker: Worker) -> int:
        """Polls for what the other one leaves."""
        for polls in range(100):
            if any(worker.bare.list("sign")):
                return polls
            worker.runtime().clock.sleep(60)
        raise AssertionError("it never came")

    def leave(world: World, worker: Worker) -> int:
        for _ in range(3):
            worker.bare.put("other", b"")
        worker.bare.put("sign", b"")
        return world.clock.now_ms()

    polled: set[int] = set()
    slept: set[tuple[int, int]] = set()

    def check(world: World, outcomes: list[Outcome]) -> None:
        polls = outcomes[0].result()
        polled.add(polls)
        assert world.clock.naps == [60] * polls
        slept.add((polls, (outcomes[1].result() - 1_700_000_000_000) // 60_000))

    # Nothing but a turn of the other one lets it go on: no run is endless, and in none it waits in vain for long.
    explored = explore(make, [wait, leave], check, switches=2)
    assert explored.schedules > schedules_of_two(1, 4, 2)
    assert polled == {0, 1, 2, 3}
    # The other one works at the end of a sleep, or, for a switch, before it begins.
    assert slept == {(0, 0), (1, 0), (1, 1), (2, 1), (2, 2), (3, 3)}
    run = replay(make, [wait, leave], lambda world, outcomes: None, ((0, 6), (1, None)))
    # Two points of every round: a look, and a sleep through which it went on.
    assert [event.kind for event in run.events] == ["list", "sleep"] * 3 + ["put"] * 4 + ["list"]
    assert replay(make, [wait, leave], lambda world, outcomes: None, run.schedule).events == run.events


def test_an_endless_run_is_reported_with_its_schedule() -> None:
    def forever(world: World, worker: Worker) -> None:
        while True:
            worker.runtime().clock.sleep(1)

    with pytest.raises(ScheduleError, match="no end after 50 calls") as caught:
        explore(make, [forever, forever], no_check, limits=Limits(calls=50))
    assert caught.value.__notes__[0].startswith("schedule=((0, 1), (1, 1), (0, 1),")


def test_a_worker_that_waits_for_another_is_reported_with_its_schedule() -> None:
    lock = threading.Lock()

    def hold(world: World, worker: Worker) -> int:
        with lock:
            worker.bare.put("a", b"")
            worker.bare.put("b", b"")
        return worker.number

    assert explore(make, [hold, hold], no_check, switches=0).schedules == 2
    with pytest.raises(ScheduleError, match=r"worker 1 neither ends nor calls the store") as caught:
        explore(make, [hold, hold], no_check, limits=Limits(stall_seconds=0.05))
    assert caught.value.__notes__[0] == "schedule=((0, 1), (1, 0))"


def test_workers_that_do_something_else_each_time_are_refused() -> None:
    worlds: list[World] = []

    def fresh() -> World:
        worlds.append(make())
        return worlds[-1]

    def fickle(world: World, worker: Worker) -> int:
        for _ in range(2):
            worker.bare.put("a", b"") if len(worlds) <= 2 else list(worker.bare.list("b"))
        return worker.number

    with pytest.raises(ScheduleError, match="not deterministic: point 1 was 0: put a, now 0: list b"):
        explore(fresh, [fickle, fickle], no_check, switches=1)


def test_too_many_schedules_are_refused() -> None:
    with pytest.raises(ScheduleError, match="more than 20 schedules"):
        explore(make, [puts(5), puts(5)], no_check, switches=3, limits=Limits(schedules=20))


def test_reads_in_parallel_and_in_the_background_keep_their_order() -> None:
    def read(world: World, worker: Worker) -> int:
        in_parallel(lambda name: list(worker.bare.list(name)), "abc")
        futures = [in_background(lambda name: list(worker.bare.list(name)), name) for name in "de"]
        assert [future.result() for future in futures] == [[], []]
        failed = in_background(worker.bare.get, "missing")
        with pytest.raises(NotFoundError):
            failed.result()
        return worker.number

    run = replay(make, [read, read], no_check, ((0, 2), (1, None)))
    assert [(event.worker, event.paths[0]) for event in run.events] == [
        *((0, name) for name in "ab"),
        *((1, name) for name in ("a", "b", "c", "d", "e", "missing")),
        *((0, name) for name in ("c", "d", "e", "missing")),
    ]


def test_a_thread_beside_the_work_is_refused() -> None:
    def start(world: World, worker: Worker) -> None:
        def put() -> None:
            # What unwinds a worker unwinds this one too.
            with suppress(Abandoned):
                worker.bare.put("a", b"")

        thread = threading.Thread(target=put)
        thread.start()
        thread.join()

    with pytest.raises(ScheduleError, match="worker 0: a thread that it started called the store"):
        replay(make, [start, puts(2)], no_check, ())


def test_no_ticker_runs_beside_the_work() -> None:
    ticks: list[int] = []

    def tick(world: World, worker: Worker) -> int:
        ticker = worker.runtime().ticker(0.0, lambda: ticks.append(1))
        ticker.start()
        worker.bare.put("a", b"")
        assert ticker.is_alive
        ticker.stop()
        return worker.number

    explore(make, [tick, tick], no_check)
    assert ticks == []


def test_what_a_worker_raises_is_its_own() -> None:
    def fail(world: World, worker: Worker) -> None:
        worker.bare.get("missing")

    def check(world: World, outcomes: list[Outcome]) -> None:
        assert isinstance(outcomes[0].error, NotFoundError)
        assert outcomes[1].result() == 1

    assert explore(make, [fail, puts(3)], check).schedules == 4
    with pytest.raises(NotFoundError):
        explore(make, [fail, puts(3)], no_check)


def test_chance_and_ids_are_the_same_in_every_run() -> None:
    def draw(world: World, worker: Worker) -> list[str]:
        runtime, another = worker.runtime(), worker.runtime(ahead_seconds=60)
        worker.bare.put("a", b"")
        return [runtime.new_id(), another.new_id()]

    drawn: set[tuple[Any, ...]] = set()
    explore(make, [draw, draw], lambda world, outcomes: drawn.add(tuple(i for outcome in outcomes for i in outcome.result())))
    (ids,) = drawn
    assert len(set(ids)) == 4


def test_a_worker_dies_at_its_call_and_the_others_go_on() -> None:
    def check(world: World, outcomes: list[Outcome]) -> None:
        assert isinstance(outcomes[0].error, SimulatedCrash)
        assert outcomes[1].result() == 1
        assert [info.path for info in world.store.list()] == ["0/0", "0/1", "1/0", "1/1"]

    def faults(number: int) -> Callable[[Call], Fault | None] | None:
        return at({2: Fault.CRASH_AFTER}) if number == 0 else None

    explored = explore(make, [puts(4), puts(2)], check, switches=None, faults=faults)
    assert explored.schedules == comb(4, 2)
    assert explored.injected == explored.schedules


def test_dying_at_every_call_in_every_schedule() -> None:
    left: set[tuple[str, ...]] = set()

    def check(world: World, outcomes: list[Outcome]) -> None:
        left.add(tuple(info.path for info in world.store.list()))
        assert isinstance(outcomes[0].error, SimulatedCrash) or outcomes[0].result() == 0

    explored = explore_crashes(make, [puts(3), puts(1)], check, switches=None)
    # Before call n it makes n calls too, of which the last does nothing: as many points as after it.
    assert explored.schedules == sum(2 * comb(calls + 1, 1) for calls in (1, 2, 3))
    assert left == {("1/0",), ("0/0", "1/0"), ("0/0", "0/1", "1/0"), ("0/0", "0/1", "0/2", "1/0")}


# Steps of a worker, each with what it works on. Few paths and few steps: workers that miss each other show nothing.
STEPS = st.tuples(st.sampled_from(["get", "get", "put", "put", "put_if_absent", "list", "delete", "sleep"]), st.sampled_from(["a", "ab"]))


def program(steps: list[tuple[str, str]]) -> Toy:
    """Does the steps and returns all that it saw."""

    def work(world: World, worker: Worker) -> list[object]:
        return [step(worker, number, *chosen) for number, chosen in enumerate(steps)]

    def step(worker: Worker, number: int, kind: str, path: str) -> object:
        data = b"%d.%d" % (worker.number, number)
        try:
            match kind:
                case "get":
                    return worker.bare.get(path)
                case "list":
                    return [(info.path, info.modified_ms) for info in worker.bare.list(path)]
                case "delete":
                    return worker.bare.delete(["b", path])
                case "sleep":
                    return worker.runtime().clock.sleep(1)
                case _:
                    return getattr(worker.bare, kind)(path, data)
        except (NotFoundError, AlreadyExistsError) as error:
            return type(error).__name__

    return work


@settings(max_examples=15)
@given(programs=st.lists(st.lists(STEPS, min_size=1, max_size=4), min_size=2, max_size=3), switches=st.integers(1, 3))
def test_what_is_skipped_changes_no_result(programs: list[list[tuple[str, str]]], switches: int) -> None:
    switches = min(switches, 5 - len(programs))

    def results(skip_equal: bool) -> tuple[set[str], Explored]:
        seen: set[str] = set()

        def check(world: World, outcomes: list[Outcome]) -> None:
            seen.add(repr(([outcome.result() for outcome in outcomes], list(world.store.list()))))

        workers = [program(steps) for steps in programs]
        return seen, explore(timed, workers, check, switches=switches, relevant=every_call, skip_equal=skip_equal)

    (all_results, every), (same_results, fewer) = results(False), results(True)
    assert same_results == all_results
    assert fewer.schedules <= every.schedules


def timed() -> World:
    clock = FakeClock()
    return World(store=MemoryStore(clock), clock=clock)


def test_workers_that_share_nothing_need_no_switch() -> None:
    explored = explore(make, [puts(8), puts(8)], no_check, switches=3, skip_equal=True)
    # Who begins is always tried; so is a switch before the last call, behind which nothing is known of the other.
    assert explored.schedules == 4
    assert explored.skipped == 2 * 6
    assert explore(make, [puts(8, "same"), puts(8, "same")], no_check, switches=3, skip_equal=True).schedules == schedules_of_two(8, 8, 3)


def test_a_summary_says_how_many_schedules_were_run() -> None:
    text = str(Explored(schedules=1_234, switches=3, calls=5_000, seconds=2.0))
    assert text == "1,234 schedules with up to 3 switches: 5,000 calls, 2.0 s, 617 schedules/s"
    assert "any number of switches: 0 calls" in str(Explored())


def test_a_run_needs_no_schedule() -> None:
    run = Run(make(), [puts(2), puts(1)])
    assert [outcome.result() for outcome in run.play()] == [0, 1]
    assert run.schedule == ((0, 2), (1, 1))
