"""What happened to a table, newest first."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from needlefish.errors import InvalidError
from needlefish.model.log import STEPS, Batch, LogEntry, TableState
from needlefish.store import Store
from needlefish.timeline.replay import read_entries

# Left out unless asked for: they say who works on the table, and change nothing in it.
_UNSHOWN = STEPS - {"clean"}
# Entries read at first for each that is wanted: a write is a claim and a commit.
_ENTRIES_PER_SHOWN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One version, as a person wants to see it."""

    version: int
    timestamp_ms: int
    action: str
    # The unit of work that the version is a step of; versions of one have the same.
    instant: str | None
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


def read_history(store: Store, state: TableState, limit: int | None = None, *, steps: bool = False) -> list[HistoryEntry]:
    """The last `limit` versions (None: all) that changed the table, up to the handle's own; with `steps` those between as well."""
    if limit is not None and limit < 1:
        raise InvalidError(f"limit is {limit}; give a number above zero, or leave it out for all versions")
    window = None if limit is None else limit if steps else limit * _ENTRIES_PER_SHOWN
    shown = (entry for entry in _newest_first(store, state, window) if steps or entry.action not in _UNSHOWN)
    return [_shown(entry) for entry in islice(shown, limit)]


def _newest_first(store: Store, state: TableState, window: int | None) -> Iterator[LogEntry]:
    """All that can still be read; `window` of them are asked for first, then twice as many each time (None: all at once)."""
    end = state.version + 1
    while end > state.oldest:
        window = end if window is None else window
        first = max(state.oldest, end - window)
        yield from read_entries(store, first, end - 1)
        end, window = first, window * 2


def _shown(entry: LogEntry) -> HistoryEntry:
    return HistoryEntry(
        version=entry.version,
        timestamp_ms=entry.timestamp_ms,
        action=entry.action,
        instant=None if entry.instant is None else entry.instant.id,
        rows=entry.added.rows,
        files=entry.added.files,
        bytes=entry.added.bytes,
        skipped=entry.skipped,
        prev_max=entry.prev_max,
        batch=entry.batch,
        writer=entry.writer,
        token=entry.token,
    )
