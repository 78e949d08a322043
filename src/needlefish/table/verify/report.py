"""What a verification looked at and what it found."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from needlefish.errors import NeedlefishError, NotFoundError, UnavailableError, UnsupportedError

# More than this nobody reads, and a table may have millions of files; the counts go on.
MOST_KEPT = 1_000

# Whatever reading bytes that are not what they should be may end in.
DAMAGE = (NeedlefishError, pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: which object, what, and what to do about it."""

    object: str
    what: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The whole verification of one version.

    `problems` are damage. `notes` are not: answers stay right, but cost more than they could. Of both only the first
    thousand are kept; the counts are complete.
    """

    uri: str
    version: int
    data_read: bool
    versions: int
    runs: int
    files: int
    rows: int
    # Those of the rows that are hidden.
    skipped: int
    bytes: int
    problem_count: int
    note_count: int
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        return not self.problem_count


@dataclass(slots=True, kw_only=True)
class Findings:
    """What checks have found so far. Each check has its own, so that they may run side by side."""

    versions: int = 0
    runs: int = 0
    files: int = 0
    rows: int = 0
    skipped: int = 0
    bytes: int = 0
    problem_count: int = 0
    note_count: int = 0
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    def problem(self, name: str, what: str, remedy: str) -> None:
        self.problem_count += 1
        self.problems.append(Problem(object=name, what=what, remedy=remedy))

    def note(self, name: str, what: str, remedy: str) -> None:
        self.note_count += 1
        self.notes.append(Problem(object=name, what=what, remedy=remedy))

    def add(self, other: "Findings") -> None:
        for name in ("versions", "runs", "files", "rows", "skipped", "bytes", "problem_count", "note_count"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.problems += other.problems[: max(0, MOST_KEPT - len(self.problems))]
        self.notes += other.notes[: max(0, MOST_KEPT - len(self.notes))]

    def guarded(self, name: str, remedy: str, check: Callable[[], None]) -> bool:
        """Runs a check; whatever damage throws at it becomes a problem of the object. Whether it got through."""
        try:
            check()
        except DAMAGE as error:
            self.problem(name, said(error, name), remedy_for(error, remedy))
            return False
        return True


def said(error: BaseException, name: str) -> str:
    """The words of an error without the object, which the problem names anyway."""
    if isinstance(error, NotFoundError):
        return "the object is missing"
    words = str(error).removeprefix(f"{name}: ")
    return words if isinstance(error, NeedlefishError) else f"cannot be read: {type(error).__name__}: {words}"


def remedy_for(error: BaseException, remedy: str) -> str:
    """What to do: damage is repaired, a store that did not answer is asked again."""
    if isinstance(error, UnavailableError):
        return "the store did not answer: verify again"
    if isinstance(error, UnsupportedError):
        return "upgrade needlefish"
    return remedy
