"""Schedules that grow from a run by deciding otherwise at one later point, and those of them that would change nothing.

A switch away from a worker changes nothing if its next call commutes with all that is done until it goes on: the same comes out
when that call is made before the switch, which is another schedule with no more switches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from needlefish.testing.schedule import Event, Point, ScheduleError, W
from needlefish.testing.scheduler import Run


@dataclass(slots=True, kw_only=True, order=True)
class Branch:
    """A run yet to be made: as another one up to its last deviation. Branches sort by what they cost, then by their age."""

    spent: int = 0
    age: int = 0
    # The worker chosen instead of the first option, by the number of the point.
    deviations: Mapping[int, int] = field(default_factory=dict, compare=False)
    # What the other run passed, and how much of it comes before the last deviation.
    before: Sequence[Event] = field(default=(), compare=False)
    passed: int = field(default=0, compare=False)
    # The branch that switches one call later; it is run first.
    later: "Branch | None" = field(default=None, compare=False)
    # What was done between the last deviation and the next call of who was interrupted, once that is known.
    between: Sequence[Event] | None = field(default=None, compare=False)

    def decide(self) -> Callable[[Point], int]:
        """A decision for one run, which counts its points."""
        numbers = count()
        return lambda point: self.deviations.get(next(numbers), point.options[0])

    def check_same(self, events: Sequence[Event]) -> None:
        """Only workers that do the same again can be led somewhere."""
        for number in range(self.passed):
            was, found = self.before[number], events[number] if number < len(events) else None
            if found is None or (was.worker, was.kind) != (found.worker, found.kind):
                raise ScheduleError(f"workers are not deterministic: point {number + 1} was {was}, now {found}, in the same schedule")

    def is_equal_to_later(self) -> bool:
        """Whether the call between this switch and the later one commutes with all that the switch lets in.

        So does every run that grows from here: what it lets in before that call is a beginning of the same.
        """
        if self.later is None or self.later.between is None:
            return False
        self.between = self.later.between
        return _commutes(self.before[self.passed], self.between)


def grown(run: Run[W], branch: Branch, switches: int | None, skip_equal: bool) -> Iterator[Branch]:
    """All that decide otherwise at one point behind the last deviation; the latest first."""
    last = max(branch.deviations, default=-1)
    if skip_equal and len(run.workers) == 2:
        branch.between = _let_in(run, run.points[last]) if last >= 0 else None
    later: dict[int, Branch] = {}
    for number in range(len(run.points) - 1, last, -1):
        point, siblings = run.points[number], later
        later = {}
        for option in point.options[1:]:
            spent = branch.spent + point.cost(option)
            if (switches is not None and spent > switches) or (skip_equal and _returns_for_nothing(run, point, option)):
                continue
            deviations = {**branch.deviations, number: option}
            sibling = siblings.get(option) if _is_one_call_before(run, number) else None
            later[option] = Branch(spent=spent, deviations=deviations, before=run.events, passed=point.passed, later=sibling)
            yield later[option]


def _let_in(run: Run[W], point: Point) -> Sequence[Event] | None:
    """What an interruption at the point let in, until who was interrupted went on; None if it was no interruption."""
    turn = run.turns[point.turn + 1]
    return run.events[turn.begin : turn.begin + turn.passed] if turn.interrupted is not None else None


def _is_one_call_before(run: Run[W], number: int) -> bool:
    """Whether nothing but one call of the same worker lies between a point and the next."""
    if number + 1 >= len(run.points):
        return False
    point, following = run.points[number], run.points[number + 1]
    same = (point.running, point.turn, point.passed + 1) == (following.running, following.turn, following.passed)
    return same and point.running is not None and not point.sleeping and not following.sleeping


def _returns_for_nothing(run: Run[W], point: Point, option: int) -> bool:
    """Whether the option goes on with a worker that this turn interrupted before a call that commutes with all of it so far."""
    if point.turn < 0 or run.turns[point.turn].interrupted != option:
        return False
    # What it waits to do is what it does next, whenever that is.
    waiting = next(event for event in run.events[point.passed :] if event.worker == option)
    return _commutes(waiting, run.events[run.turns[point.turn].begin : point.passed])


def _commutes(event: Event, others: Sequence[Event]) -> bool:
    return all(event.commutes(other) for other in others)
