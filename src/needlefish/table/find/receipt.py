"""What a find cost, level by level."""

from dataclasses import dataclass, field
from typing import Literal

from needlefish.index.cost import Cost
from needlefish.store import Usage

Level = Literal["index", "files", "ranges", "filters", "data"]
LEVELS: tuple[Level, ...] = ("index", "files", "ranges", "filters", "data")


@dataclass(slots=True, kw_only=True)
class LevelReceipt:
    """One level: what went in, what it let pass, what was expected and what it took."""

    name: Level
    files_in: int = 0
    files_out: int = 0
    # Files that the level knew nothing about and therefore let pass.
    unknown: int = 0
    predicted_requests: int = 0
    predicted_bytes: int = 0
    usage: Usage = field(default_factory=Usage)

    def expect(self, cost: Cost) -> None:
        """Adds to what the level is going to cost; a cloud store joins neighbouring ranges and so needs fewer requests."""
        self.predicted_requests += cost.requests
        self.predicted_bytes += cost.bytes

    @property
    def requests(self) -> int:
        return self.usage.requests

    @property
    def bytes_read(self) -> int:
        return self.usage.bytes_read


@dataclass(slots=True, kw_only=True)
class FindReceipt:
    """The whole find. `false_files` and `false_granules` were read and held nothing."""

    version: int
    values: int
    index: str
    partitions: int | None
    levels: list[LevelReceipt] = field(default_factory=lambda: [LevelReceipt(name=name) for name in LEVELS])
    false_files: int = 0
    granules_read: int = 0
    granules_pruned: int = 0
    false_granules: int = 0
    rows_read: int = 0
    # Rows with a wanted value that are hidden, and candidate files of which every row is.
    rows_skipped: int = 0
    files_skipped: int = 0
    rows_returned: int = 0
    # Index objects that could not be read; their files stayed candidates.
    unreadable: list[str] = field(default_factory=list)

    def level(self, name: Level) -> LevelReceipt:
        return self.levels[LEVELS.index(name)]

    @property
    def requests(self) -> int:
        return sum(level.requests for level in self.levels)

    @property
    def bytes_read(self) -> int:
        return sum(level.bytes_read for level in self.levels)
