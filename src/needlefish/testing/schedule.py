"""The words in which schedules of workers are told: a world, points passed in turns, and how each worker ended."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from needlefish.store import Store
from needlefish.store.meter import Kind
from needlefish.testing.fake_clock import FakeClock

_READS = ("get", "get_range", "head", "list")

# Workers in their order, each with the number of points it passes before the next one's turn (None: all it has left).
Schedule: TypeAlias = tuple[tuple[int, int | None], ...]


class ScheduleError(AssertionError):
    """A run that did not come to its end, or not along its schedule."""


class Abandoned(BaseException):
    """The run is over: unwinds a worker. No Exception, so that no handler goes on."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What a run begins with. A test derives its own from it for whatever else its workers need."""

    store: Store
    # Time passes here when a worker sleeps; the store's time if the store has the same clock.
    clock: FakeClock = field(default_factory=FakeClock)


W = TypeVar("W", bound=World)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run or an exploration is given up. `calls` are of all workers of a run, sleeps included."""

    calls: int = 10_000
    schedules: int = 200_000
    # Of the machine's time, without any call: something waits for what never comes.
    stall_seconds: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A point that a worker passed."""

    worker: int
    kind: Kind | Literal["sleep"]
    # A prefix for a listing, several for a deletion.
    paths: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((f"{self.worker}: {self.kind}", *self.paths))

    def commutes(self, other: "Event") -> bool:
        """Whether the two, next to each other, could as well have come the other way round."""
        if "sleep" in (self.kind, other.kind):
            return False
        if self.kind in _READS and other.kind in _READS:
            return True
        return not any(self._touches(mine, other, theirs) for mine in self.paths for theirs in other.paths)

    def _touches(self, mine: str, other: "Event", theirs: str) -> bool:
        if self.kind == "list":
            return theirs.startswith(mine)
        return mine.startswith(theirs) if other.kind == "list" else mine == theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A moment at which the floor may pass. The first option is what happens if nobody decides otherwise."""

    options: tuple[int, ...]
    # Who has the floor; None at the start and when a worker has ended.
    running: int | None = None
    # Who sleeps is expected to hand over, who calls the store to go on.
    sleeping: bool = False
    # Points passed in the whole run, and in the present turn.
    passed: int = 0
    in_turn: int = 0
    # Which turn this is in, from 0.
    turn: int = 0

    def cost(self, option: int) -> int:
        """1 for a switch that nothing asked for, and for a sleep that nobody used."""
        return int(self.running is not None and (option == self.running) == self.sleeping)


@dataclass(slots=True, kw_only=True)
class Turn:
    """From getting the floor to losing it."""

    worker: int
    # Points passed in the whole run when it began, and in it.
    begin: int
    passed: int = 0
    # Whose call waits for this turn's end; None if that one sleeps or has ended.
    interrupted: int | None = None


Decide = Callable[[Point], int]


def first_option(point: Point) -> int:
    return point.options[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a worker ended."""

    value: object = None
    error: BaseException | None = None

    def result(self) -> Any:
        """What the worker returned; raises what it raised."""
        if self.error is not None:
            raise self.error
        return self.value
