"""What happened to a table, newest first."""

from dataclasses import dataclass

from needlefish.errors import InvalidError
from needlefish.model.log import Batch, LogEntry, TableState
from needlefish.store import Store
from needlefish.timeline.replay import read_entries


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One version, as a person wants to see it."""

    version: int
    timestamp_ms: int
    action: str
    rows: int
    files: int
    bytes: int
    # Rows that this version hid: replaced or deleted.
    skipped: int
    # The version that its keys were compared against, and the delivery it was, where it has these.
    prev_max: int | None
    batch: Batch | None
    writer: str
    token: str


def read_history(store: Store, state: TableState, limit: int | None = None) -> list[HistoryEntry]:
    """The last `limit` versions up to the handle's own (None: all)."""
    if limit is not None and limit < 1:
        raise InvalidError(f"limit is {limit}; give a number above zero, or leave it out for all versions")
    first = 0 if limit is None else max(0, state.version - limit + 1)
    return [_shown(entry) for entry in read_entries(store, first, state.version)]


def _shown(entry: LogEntry) -> HistoryEntry:
    return HistoryEntry(
        version=entry.version,
        timestamp_ms=entry.timestamp_ms,
        action=entry.action,
        rows=entry.added.rows,
        files=entry.added.files,
        bytes=entry.added.bytes,
        skipped=entry.skipped,
        prev_max=entry.prev_max,
        batch=entry.batch,
        writer=entry.writer,
        token=entry.token,
    )
