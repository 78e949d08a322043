"""Every schedule of some workers with up to so many switches, each in a fresh world, each checked.

The first run switches only where a worker ends. From each run grow those that decide otherwise at one later point, so that no
length is guessed and none is run twice. Those with fewer switches come first, so that the first failure is a simple one; it
says the schedule that `replay` plays again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count

from needlefish.runtime import SYSTEM
from needlefish.testing.branches import Branch, grown
from needlefish.testing.faulty_store import Call, Fault, at
from needlefish.testing.faulty_store import Schedule as Faults
from needlefish.testing.schedule import Limits, Outcome, Point, Schedule, ScheduleError, W
from needlefish.testing.scheduler import Run, Work
from needlefish.testing.switch_points import unless_immutable_read

# Notes on a failure show at most this many of its last points.
_SHOWN_EVENTS = 200

Check = Callable[[W, list[Outcome]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """What was run. `calls` are store calls and sleeps of all workers, `points` those of them that could be switched at."""

    schedules: int = 0
    switches: int | None = None
    calls: int = 0
    points: int = 0
    injected: int = 0
    # Beginnings that were not run, since they differ from others in the order of calls that commute.
    skipped: int = 0
    seconds: float = 0.0

    def plus(self, other: "Explored") -> "Explored":
        summed = ("schedules", "calls", "points", "injected", "skipped", "seconds")
        return replace(other, **{name: getattr(self, name) + getattr(other, name) for name in summed})

    def __str__(self) -> str:
        most = "any number of switches" if self.switches is None else f"up to {self.switches} switches"
        rate = self.schedules / self.seconds if self.seconds else 0
        equal = f" ({self.skipped:,} more begin equal to one of them)" if self.skipped else ""
        return f"{self.schedules:,} schedules with {most}{equal}: {self.calls:,} calls, {self.seconds:.1f} s, {rate:,.0f} schedules/s"


class _Script:
    """Decides as a schedule says. Behind its last turn another worker goes on, and nobody decides any more."""

    def __init__(self, schedule: Schedule) -> None:
        self._turns = iter(schedule)
        # Of the present turn; None if it has none.
        self._limit: int | None = None

    def __call__(self, point: Point) -> int:
        if point.running is not None and (self._limit is None or point.in_turn < self._limit):
            return point.options[0] if self._limit is None else point.running
        rest = next((option for option in point.options if option != point.running), point.options[0])
        chosen, self._limit = next(self._turns, (rest, None))
        return chosen


def explore(
    make: Callable[[], W],
    workers: Sequence[Work[W]],
    check: Check[W],
    *,
    switches: int | None = 3,
    relevant: Callable[[Call], bool] = unless_immutable_read,
    faults: Callable[[int], Faults | None] | None = None,
    limits: Limits | None = None,
    skip_equal: bool = False,
) -> Explored:
    """Runs every schedule with up to `switches` switches (None: any number) and checks what each left.

    Counted is a switch away from a worker that could have gone on, and a sleep after which it went on at once; passing the floor at
    a worker's end and while it sleeps is free. Of two workers, two counted switches make three changes of the floor in all.

    With `skip_equal`, a schedule that differs from another only in the order of calls that commute is not run: all results are
    seen, and none of them more often than it must be.
    """
    limits = limits or Limits()
    started, done, todo, ages = SYSTEM.clock.monotonic(), Explored(switches=switches), [Branch()], count(1)
    while todo:
        branch = heappop(todo)
        if skip_equal and branch.is_equal_to_later():
            done = done.plus(Explored(skipped=1, switches=switches))
            continue
        run = Run(make(), workers, branch.decide(), relevant=relevant, faults=faults, limits=limits)
        _checked(run, check, branch)
        for new in grown(run, branch, switches, skip_equal):
            # In place: branches know each other.
            new.age = next(ages)
            heappush(todo, new)
        done = done.plus(_explored(run, switches))
        if done.schedules + len(todo) > limits.schedules:
            raise ScheduleError(f"more than {limits.schedules:,} schedules: allow fewer switches, or at fewer calls")
    return replace(done, seconds=SYSTEM.clock.monotonic() - started)


def explore_crashes(
    make: Callable[[], W],
    workers: Sequence[Work[W]],
    check: Check[W],
    *,
    dying: int = 0,
    switches: int | None = 1,
    relevant: Callable[[Call], bool] = unless_immutable_read,
    limits: Limits | None = None,
    skip_equal: bool = False,
) -> Explored:
    """The same for each call of the worker `dying`, which dies before or after it, until no schedule has so many calls."""
    total = Explored(switches=switches)
    for number in count(1):
        reached = Explored(switches=switches)
        for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            faults = _faults_of(dying, at({number: fault}))
            explored = explore(
                make, workers, check, switches=switches, relevant=relevant, faults=faults, limits=limits, skip_equal=skip_equal
            )
            reached = reached.plus(explored)
        if not reached.injected:
            return total
        total = total.plus(reached)
    raise AssertionError("unreachable")


def replay(
    make: Callable[[], W],
    workers: Sequence[Work[W]],
    check: Check[W],
    schedule: Schedule,
    *,
    relevant: Callable[[Call], bool] = unless_immutable_read,
    faults: Callable[[int], Faults | None] | None = None,
    limits: Limits | None = None,
) -> Run[W]:
    """Plays one schedule, as pasted from a failure or written by hand, and checks it."""
    run = Run(make(), workers, _Script(schedule), relevant=relevant, faults=faults, limits=limits)
    _checked(run, check, Branch())
    return run


def _faults_of(dying: int, faults: Faults) -> Callable[[int], Faults | None]:
    return lambda number: faults if number == dying else None


def _checked(run: Run[W], check: Check[W], branch: Branch) -> None:
    try:
        outcomes = run.play()
        branch.check_same(run.events)
        check(run.world, outcomes)
    except Exception as error:
        for note in _notes(run):
            error.add_note(note)
        raise


def _notes(run: Run[W]) -> Iterator[str]:
    yield f"schedule={run.schedule}"
    if run.injected:
        yield "faults: " + ", ".join(f"{fault.name} at {call}" for call, fault in run.injected)
    left_out = max(0, len(run.events) - _SHOWN_EVENTS)
    for number, event in enumerate(run.events[left_out:], left_out + 1):
        yield f"{number:4} {event}"
    for number, outcome in enumerate(run.outcomes):
        yield f"worker {number}: {outcome.value if outcome.error is None else repr(outcome.error)}"


def _explored(run: Run[W], switches: int | None) -> Explored:
    return Explored(schedules=1, switches=switches, calls=sum(run.calls), points=len(run.events), injected=len(run.injected))
