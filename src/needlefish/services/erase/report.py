"""What an erasure can prove: place by place, from what was found there afterwards."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place that may hold values. What remains does so until the time `until_ms` and for `changes` more versions of the table."""

    name: str
    # What was looked at, in words.
    checked: str
    gone: int = 0
    remains: int = 0
    until_ms: int | None = None
    changes: int = 0
    # Some of what remains.
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.remains:
            return f"{self.name}: nothing remains, {self.gone:,} gone ({self.checked})"
        return f"{self.name}: {self.remains:,} remain{self._until()}, {self.gone:,} gone ({self.checked})"

    def _until(self) -> str:
        if self.until_ms is None:
            return ""
        moment = datetime.fromtimestamp(self.until_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
        more = f" and {self.changes} more changes of the table" if self.changes else ""
        return f" until a clean after {moment} UTC{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport:
    """What an erasure did, and what it proves. `complete` means that nothing remains anywhere."""

    version: int
    # Keys that were asked for, rows that were visible until now, and files that held rows of these keys, hidden ones too.
    keys: int
    deleted: int
    files: int
    places: tuple[Place, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        return not any(place.remains for place in self.places)

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "complete": self.complete}

    def __str__(self) -> str:
        head = "erased: nothing remains" if self.complete else "deleted, but not everything is gone yet"
        lines = [f"{head}; {self.keys:,} keys, {self.deleted:,} rows deleted, {self.files:,} files rewritten or removed"]
        return "\n".join([*lines, *(f"  {place}" for place in self.places), *(f"  {note}" for note in self.notes)])
