"""Reading the log: to its end, to a version, to a time. What a clean has removed is told from what was lost."""

from collections.abc import Iterator
from contextlib import contextmanager

from needlefish.errors import CorruptError, InvalidError, NeedlefishError, NotFoundError
from needlefish.format.log_entry import LOG_PREFIX, decode_entry, log_path
from needlefish.model.log import LogEntry, TableState, Version
from needlefish.runtime import in_parallel
from needlefish.store import Store
from needlefish.timeline.checkpoint import read_before, read_latest
from needlefish.timeline.fold import fold

# Entries asked for at once: one when the state is probably current, twice as many each time it was not.
_FIRST_WINDOW = 1
_LAST_WINDOW = 64
# Who finds this many at once still is not at the end, so that a folded state is cheaper than reading on: first the
# hint; then, since a hint may be old, the newest checkpoint. Both bounds lie below the interval of checkpoints.
_HINT_WINDOW = 4
_LIST_WINDOW = 16


def read_entry(store: Store, version: int) -> LogEntry | None:
    """The entry of `version`, None if the log does not reach that far."""
    try:
        data = store.get(log_path(version))
    except NotFoundError:
        return None
    return decode_entry(data, version)


def catch_up(store: Store, state: TableState | None, until: int | None = None) -> TableState | None:
    """The state at the end of the log (or at `until`). Numbers have no gaps, so the first missing one is the end.

    However far `state` lags behind, the number of requests is bounded: folded states take the place of entries. Behind a state so
    old that a clean has removed the entries after it, the log goes on from a checkpoint.
    """
    while True:
        found = _followed(store, state, until)
        # Who has seen the entry before the missing one a moment ago is at the end; others make sure.
        if until is not None or found is not state:
            return found
        ahead = _beyond_cleaned(store, state)
        if ahead is None:
            return state
        state = ahead


def _followed(store: Store, state: TableState | None, until: int | None = None) -> TableState | None:
    """The state at the first number that is missing."""
    window = _FIRST_WINDOW
    while True:
        first = state.version + 1 if state else 0
        last = first + window if until is None else min(first + window, until + 1)
        for entry in in_parallel(lambda version: read_entry(store, version), range(first, last)):
            if entry is None:
                return state
            state = fold(state, entry)
        if until is not None and last > until:
            return state
        ahead = _ahead(store, state, window) if until is None else None
        state, window = (ahead, _FIRST_WINDOW) if ahead else (state, min(window * 2, _LAST_WINDOW))


def _ahead(store: Store, state: TableState | None, window: int) -> TableState | None:
    """A folded state beyond `state`, if it is time to look for one and there is one."""
    assert state is not None, "a full window was folded"
    if window == _HINT_WINDOW:
        found = read_latest(store)
    elif window == _LIST_WINDOW:
        found = read_before(store, None, after=state.version)
    else:
        return None
    return found if found and found.version > state.version else None


def _beyond_cleaned(store: Store, state: TableState | None) -> TableState | None:
    """A later state, if the log has gone on but a clean has removed what comes after `state`.

    A clean removes entries from the oldest on: while that of `state` itself is there, those behind it are too.
    """
    if state is not None and read_entry(store, state.version) is not None:
        return None
    known = -1 if state is None else state.version
    hint = read_latest(store)
    if hint is not None and hint.version > known:
        return hint
    return read_before(store, None, after=None if state is None else known)


def read_newest(store: Store) -> TableState:
    """Opens a table: the hint and the entry that does not exist yet, two requests, when nobody is writing."""
    state = _followed(store, read_latest(store) or read_before(store, None))
    if state is not None:
        return state
    first = next(iter(store.list(LOG_PREFIX)), None)
    if first is None:
        raise NotFoundError(f"{store.uri} holds no Needlefish table (there is no {log_path(0)}); create it, or check the address")
    raise CorruptError(
        f"{store.uri}: the log begins with {first.path} and no checkpoint stands for what came before; restore one from a copy"
    )


def read_state_at(store: Store, version: int, newest: TableState) -> TableState:
    """The table as it was at `version`."""
    if not 0 <= version <= newest.version:
        raise NotFoundError(f"version {version} of {store.uri} does not exist; versions run from {newest.oldest} to {newest.version}")
    if version < newest.oldest:
        raise cleaned_error(store, version, newest.oldest)
    return newest if version == newest.version else folded_at(store, version)


def folded_at(store: Store, version: int) -> TableState:
    """The state of a version that the log still knows, readable or not."""
    state = catch_up(store, read_before(store, version), until=version)
    if state is None or state.version != version:
        raise _missing(store, state.version + 1 if state else 0, version)
    return state


def version_at_time(store: Store, timestamp_ms: int, newest: TableState) -> Version:
    """The last version committed at or before a time: log times never run backwards, so halving finds it."""
    low, high = newest.oldest, newest.version
    first_ms = _time_of(store, low)
    if first_ms > timestamp_ms and low:
        raise NotFoundError(
            f"the version of timestamp {timestamp_ms} ms of {store.uri} was cleaned; the oldest readable version is {low}, of {first_ms} ms"
        )
    if first_ms > timestamp_ms:
        raise InvalidError(f"timestamp {timestamp_ms} ms is before {store.uri} was created; give a later one")
    while low < high:
        middle = (low + high + 1) // 2
        if _time_of(store, middle) <= timestamp_ms:
            low = middle
        else:
            high = middle - 1
    return Version(low)


def _time_of(store: Store, version: int) -> int:
    return _required(store, version).timestamp_ms


def _required(store: Store, version: int) -> LogEntry:
    entry = read_entry(store, version)
    if entry is None:
        raise _missing(store, version, version)
    return entry


def read_entries(store: Store, first: int, last: int) -> Iterator[LogEntry]:
    """Entries `last` down to `first`, read a window at a time."""
    for end in range(last, first - 1, -_LAST_WINDOW):
        begin = max(first, end - _LAST_WINDOW + 1)
        yield from in_parallel(lambda version: _required(store, version), range(end, begin - 1, -1))


def cleaned_error(store: Store, version: int, oldest: int) -> NotFoundError:
    return NotFoundError(f"version {version} of {store.uri} was cleaned; the oldest readable version is {oldest}")


def _missing(store: Store, entry: int, version: int) -> NeedlefishError:
    """What to raise where an entry that `version` needs is not there, though later ones are."""
    oldest = oldest_now(store)
    if version < oldest:
        return cleaned_error(store, version, oldest)
    return CorruptError(f"{log_path(entry)}: missing, though later versions exist")


def oldest_now(store: Store) -> int:
    """The oldest version that can be read by now; 0 if nobody can say, since an error is on its way already."""
    try:
        return read_newest(store).oldest
    except NeedlefishError:
        return 0


@contextmanager
def told_if_cleaned(store: Store, state: TableState) -> Iterator[None]:
    """Around reads of a version: what is missing because a clean has removed the version is not damage."""
    try:
        yield
    except (NotFoundError, CorruptError) as error:
        oldest = oldest_now(store)
        if state.version < oldest:
            raise cleaned_error(store, state.version, oldest) from error
        raise
