"""What a clean removed, or would remove, and why."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

# Paths that a result names; all are counted.
_MOST_PATHS = 10_000

Kind = Literal[
    "expired file",
    "old run",
    "old log entry",
    "old checkpoint",
    "orphan file",
    "orphan run",
    "orphan work file",
    "orphan plan",
    "orphan heartbeat",
    "unfinished write",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One object that goes."""

    path: str
    bytes: int
    kind: Kind
    # Words for people.
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Objects of one kind that went for the same reason."""

    kind: Kind
    why: str
    objects: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """What a clean did; with `dry_run`, what it would have done.

    Versions from `oldest` up can be read after it. `rolled_back` are dead instants, `notes` say what was left and why.
    """

    version: int
    oldest: int
    dry_run: bool = False
    rolled_back: tuple[str, ...] = ()
    removed: tuple[Removed, ...] = ()
    paths: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    requests: int = 0
    seconds: float = 0.0

    @property
    def objects(self) -> int:
        return sum(one.objects for one in self.removed)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.removed)

    def __str__(self) -> str:
        verb = "would remove" if self.dry_run else "removed"
        lines = [f"{verb} {self.objects:,} objects, {self.bytes:,} bytes; versions from {self.oldest} on stay readable"]
        lines += [f"  {one.objects:>9,} x {one.kind}, {one.bytes:,} bytes: {one.why}" for one in self.removed]
        lines += [f"  {'would roll' if self.dry_run else 'rolled'} back {instant}" for instant in self.rolled_back]
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(slots=True)
class Tally:
    """Counts what goes, by kind and reason, and remembers the first paths."""

    _sums: dict[tuple[Kind, str], tuple[int, int]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, removals: Iterable[Removal]) -> None:
        for one in removals:
            self.count(one.kind, one.why, 1, one.bytes)
            if len(self.paths) < _MOST_PATHS:
                self.paths.append(one.path)

    def count(self, kind: Kind, why: str, objects: int, size: int) -> None:
        known = self._sums.get((kind, why), (0, 0))
        self._sums[kind, why] = (known[0] + objects, known[1] + size)

    @property
    def removed(self) -> tuple[Removed, ...]:
        return tuple(Removed(kind=kind, why=why, objects=sums[0], bytes=sums[1]) for (kind, why), sums in self._sums.items())
