"""Workers that take turns: each an ordinary function in a thread of its own, of which exactly one runs at a time.

Every store call and every sleep is a moment at which the floor may pass to another worker; who decides is told in `Point`.
`testing.explorer` decides in every possible way; here one run is played.
"""

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, Never

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.runtime import Runtime
from needlefish.store import RetriedStore, layered
from needlefish.store.meter import Kind
from needlefish.store.shapes import MEMORY
from needlefish.testing.faulty_store import Call, Fault, FaultyStore
from needlefish.testing.faulty_store import Schedule as Faults
from needlefish.testing.schedule import (
    Abandoned,
    Decide,
    Event,
    Limits,
    Outcome,
    Point,
    Schedule,
    ScheduleError,
    Turn,
    W,
    World,
    first_option,
)
from needlefish.testing.scheduled_store import ScheduledClock, ScheduledStore
from needlefish.testing.switch_points import unless_immutable_read

# Reads in parallel run in the caller's thread if it is called so: the order of calls is the scheduler's alone.
_THREAD_NAME = "needlefish-read-worker"


class Worker:
    """What a worker's function gets beside the world: a store and a runtime that take turns."""

    def __init__(self, number: int, world: World, run: "Run[Any]", faults: Faults | None) -> None:
        self.number = number
        self.clock = ScheduledClock(world.clock, number, run)
        # One for all runtimes of the worker: two with the same seed would give their objects the same names.
        self._chance = random.Random(f"worker {number}")
        self.faulty = None if faults is None else FaultyStore(world.store, faults, self.runtime())
        self.bare = ScheduledStore(self.faulty or world.store, number, run)

    def runtime(self, ahead_seconds: float = 0) -> Runtime:
        """No threads beside the work, the same chance in every run, a clock that may be wrong."""
        clock = self.clock.ahead(ahead_seconds)
        return Runtime(clock=clock, chance=self._chance, threads=False)

    def store(self, attempts: int = 1) -> RetriedStore:
        """The layers that tables want around the bare store. One attempt, unless faults are to be got over."""
        config = StoreConfig(uri=self.bare.uri, retry=RetryPolicy(attempts=attempts))
        return layered(self.bare, config=config, runtime=self.runtime(), shape=MEMORY)


Work = Callable[[W, Worker], object]


class Run(Generic[W]):
    """One run of all workers in a world. Whoever has the floor decides itself who is next, so that going on costs nothing."""

    def __init__(
        self,
        world: W,
        works: Sequence[Work[W]],
        decide: Decide = first_option,
        *,
        relevant: Callable[[Call], bool] = unless_immutable_read,
        faults: Callable[[int], Faults | None] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.world = world
        self.events: list[Event] = []
        self.points: list[Point] = []
        self.calls = [0] * len(works)
        self.outcomes = [Outcome() for _ in works]
        self._works = works
        self._decide = decide
        self._relevant = relevant
        self._limits = limits or Limits()
        self.turns: list[Turn] = []
        self._alive = list(range(len(works)))
        self._gates = [_closed() for _ in works]
        self._end = threading.Event()
        self._failure: BaseException | None = None
        self._over = False
        self._idents = [0] * len(works)
        self.workers = [Worker(number, world, self, faults(number) if faults else None) for number in self._alive]

    @property
    def schedule(self) -> Schedule:
        """The turns as they were taken: whoever plays them gets the same run."""
        return tuple((turn.worker, turn.passed) for turn in self.turns)

    @property
    def injected(self) -> list[tuple[Call, Fault]]:
        return [met for worker in self.workers if worker.faulty for met in worker.faulty.injected]

    def play(self) -> list[Outcome]:
        """Runs all workers to their ends; raises what stopped the run, never what a worker raised."""
        threads = [
            threading.Thread(target=self._work, args=(number,), name=f"{_THREAD_NAME}-{number}", daemon=True) for number in self._alive
        ]
        for thread in threads:
            thread.start()
        self._hand_to(self._chosen(self._point(tuple(self._alive))))
        self._await_end()
        if self._failure is not None:
            raise self._failure
        for thread in threads:
            thread.join()
        return self.outcomes

    def arrive(self, number: int, kind: Kind, *paths: str) -> None:
        """Called by a worker before every call on its store: returns when it is to be done."""
        self._count(number)
        if not self._relevant(Call(number=self.calls[number], kind=kind, path=paths[0] if paths else "")):
            return
        self._pass(Event(worker=number, kind=kind, paths=paths))

    def sleep(self, number: int, seconds: float) -> None:
        """Called by a worker that waits: time passes, and others are expected to use it."""
        self._count(number)
        self._pass(Event(worker=number, kind="sleep", paths=(f"{seconds:.3f} s",)))
        self.world.clock.sleep(seconds)
        if others := self._others(number):
            self._offer(self._point((*others, number), running=number, sleeping=True))

    def _point(self, options: tuple[int, ...], *, running: int | None = None, sleeping: bool = False) -> Point:
        turn = len(self.turns) - 1
        in_turn = self.turns[turn].passed if self.turns else 0
        return Point(options=options, running=running, sleeping=sleeping, passed=len(self.events), in_turn=in_turn, turn=turn)

    def _count(self, number: int) -> None:
        if self._over:
            raise Abandoned
        if threading.get_ident() != self._idents[number]:
            self._stop(ScheduleError(f"worker {number}: a thread that it started called the store; run that inline or leave it out"))
        self.calls[number] += 1
        if sum(self.calls) > self._limits.calls:
            self._stop(ScheduleError(f"no end after {self._limits.calls} calls"))

    def _pass(self, event: Event) -> None:
        number = event.worker
        # Who has done nothing in this turn need not have got it: that is another schedule.
        if self.turns[-1].passed and len(self._alive) > 1:
            self._offer(self._point((number, *self._others(number)), running=number))
        self.events.append(event)
        self.turns[-1].passed += 1

    def _others(self, number: int) -> tuple[int, ...]:
        """In a ring, so that workers who wait for each other all get their turn."""
        return tuple(sorted((other for other in self._alive if other != number), key=lambda other: (other < number, other)))

    def _chosen(self, point: Point) -> int:
        self.points.append(point)
        chosen = self._decide(point)
        if chosen not in point.options:
            raise ScheduleError(f"worker {chosen} cannot have the floor after {point.passed} points; {point.options} could")
        return chosen

    def _offer(self, point: Point) -> None:
        """In the thread of the worker who has the floor; returns when it has it again."""
        try:
            chosen = self._chosen(point)
        except Exception as error:  # noqa: BLE001 - it is the run's failure, not the worker's, and raised by `play`
            self._stop(error)
        if chosen == point.running:
            return
        self._hand_to(chosen, None if point.sleeping else point.running)
        self._wait(point.running)

    def _hand_to(self, number: int, interrupted: int | None = None) -> None:
        self.turns.append(Turn(worker=number, begin=len(self.events), interrupted=interrupted))
        self._gates[number].release()

    def _wait(self, number: int | None) -> None:
        assert number is not None, "only a running worker waits"
        self._gates[number].acquire()
        if self._over:
            raise Abandoned

    def _work(self, number: int) -> None:
        self._idents[number] = threading.get_ident()
        try:
            self._wait(number)
            self.outcomes[number] = Outcome(value=self._works[number](self.world, self.workers[number]))
        except BaseException as error:  # noqa: BLE001 - crashes and interrupts end the worker alone; the check sees them
            self.outcomes[number] = Outcome(error=error)
        self._leave(number)

    def _leave(self, number: int) -> None:
        self._alive.remove(number)
        if not self._alive:
            self._end.set()
        elif not self._over:
            try:
                self._hand_to(self._chosen(self._point(self._others(number))))
            except Exception as error:  # noqa: BLE001 - as above
                self._give_up(error)

    def _stop(self, failure: Exception) -> Never:
        self._give_up(failure)
        raise Abandoned

    def _give_up(self, failure: BaseException) -> None:
        """Everybody who waits wakes up and unwinds; whoever calls the store from now on does too."""
        self._failure, self._over = failure, True
        for number in self._alive:
            if self._gates[number].locked():
                self._gates[number].release()

    def _await_end(self) -> None:
        seen = -1
        while not self._end.wait(self._limits.stall_seconds):
            if sum(self.calls) == seen or self._over:
                number = self.turns[-1].worker
                stalled = f"worker {number} neither ends nor calls the store; does it wait for a lock or a thread?"
                self._give_up(self._failure or ScheduleError(stalled))
                return
            seen = sum(self.calls)


def _closed() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
