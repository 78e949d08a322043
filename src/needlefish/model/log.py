"""Log entries and the state they fold into."""

from dataclasses import dataclass, field
from typing import Literal, NewType

from needlefish.model.definition import TableDefinition
from needlefish.model.instant import Instant, InstantStep
from needlefish.model.point_index import PointRun

RunId = NewType("RunId", str)
Version = NewType("Version", int)

# What this code writes and the newest it can read. Do not renumber.
FORMAT = 1

# Do not rename: these are in every log.
Action = Literal[
    "create",
    "append",
    "merge",
    "rebuild",
    "evolve",
    "adopt",
    "index",
    "drop_index",
    "upsert",
    "delete",
    "compaction",
    "clustering",
    "clean",
    "rollback",
    # Steps of instants that change no table: what is to be done, who does it, and that it shall stop.
    "request",
    "claim",
    "cancel",
]
# Entries that put chunksets in the place of others with the same rows.
REWRITES = frozenset({"compaction", "clustering"})
# Entries after which the table is as it was before.
STEPS = frozenset({"request", "claim", "cancel", "rollback", "clean"})
RunKind = Literal["files", "column_stats", "bloom_filters", "skips"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRef:
    """A run that a version consists of, with all that a reader needs to read just its header or one block."""

    id: RunId
    kind: str
    bytes: int
    header_bytes: int
    header_checksum: str
    records: int
    # The newest version whose records are in the run, which decides who wins. Absent in the entry that brings them, since
    # its number is known only once it is written; a merged run names the newest of what it was merged from.
    version: int | None = None
    # Of what follows the blocks, which only other readers of Arrow files look at; absent means that nobody knows.
    footer_checksum: str | None = None
    # Of index runs alone.
    point: PointRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the table, or over one commit."""

    rows: int = 0
    files: int = 0
    bytes: int = 0
    # Rows that are in the files but hidden by skips.
    skipped: int = 0

    @property
    def visible_rows(self) -> int:
        return self.rows - self.skipped

    def plus(self, other: "Totals") -> "Totals":
        return Totals(
            rows=self.rows + other.rows,
            files=self.files + other.files,
            bytes=self.bytes + other.bytes,
            skipped=self.skipped + other.skipped,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A delivery that its application numbers itself, so that delivering it again does nothing."""

    application: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One version. `token` is drawn by the writer, so that it knows its own entry after a lost response."""

    format: int
    version: int
    token: str
    timestamp_ms: int
    action: str
    writer: str
    definition: TableDefinition | None = None
    runs_added: tuple[RunRef, ...] = ()
    runs_removed: tuple[RunId, ...] = ()
    added: Totals = field(default_factory=Totals)
    batch: Batch | None = None
    # The version that the commit's keys were compared against; absent for entries that compare nothing.
    prev_max: int | None = None
    instant: InstantStep | None = None
    # Of a clean alone: versions before this one cannot be read any more.
    oldest: int | None = None

    @property
    def skipped(self) -> int:
        """Rows that this entry hid and no entry before it had."""
        return self.added.skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """All entries up to `version`, folded. Its size follows the number of live runs, not the number of files."""

    format: int
    version: int
    timestamp_ms: int
    definition: TableDefinition
    runs: tuple[RunRef, ...] = ()
    totals: Totals = field(default_factory=Totals)
    # The last number of each application, by the applications' names.
    batches: tuple[Batch, ...] = ()
    # Those that are not over, in the order of their first entries.
    instants: tuple[Instant, ...] = ()
    # The oldest version that can be read, and the one up to which cleans have removed what only older ones needed.
    oldest: int = 0
    cleaned: int = 0

    def instant(self, instant_id: str) -> Instant | None:
        """The instant of this id, unless it is over or unknown."""
        return next((found for found in self.instants if found.id == instant_id), None)

    def last_batch(self, application: str) -> int | None:
        """The number of the newest batch that an application has delivered."""
        return next((batch.number for batch in self.batches if batch.application == application), None)

    def runs_of(self, kind: str) -> tuple[RunRef, ...]:
        """Newest first, which is the order in which they win."""
        return tuple(sorted((run for run in self.runs if run.kind == kind), key=lambda run: -(run.version or 0)))
