"""Checkpoints: folded states beside the log, so that opening reads a handful of objects however long the log is.

They are copies, never the truth: a missing or damaged one costs requests, and writing one may fail without harm.
"""

from needlefish.errors import CorruptError, NeedlefishError, NotFoundError
from needlefish.format.log_entry import CHECKPOINT_PREFIX, LATEST_PATH, checkpoint_path, checkpoint_version, decode_state, encode_state
from needlefish.model.log import TableState
from needlefish.store import Store


def read_latest(store: Store) -> TableState | None:
    """The hint that every commit leaves: one request, and seldom more than a few versions old."""
    return _read(store, LATEST_PATH)


def read_before(store: Store, version: int | None, after: int | None = None) -> TableState | None:
    """The newest readable checkpoint at or before `version` (None: of all); found by listing, so slower than the hint."""
    beyond = None if after is None else checkpoint_path(after)
    numbers = (checkpoint_version(found.path) for found in store.list(CHECKPOINT_PREFIX, beyond))
    usable = sorted((n for n in numbers if n is not None and (version is None or n <= version)), reverse=True)
    states = ((number, _read(store, checkpoint_path(number))) for number in usable)
    return next((state for number, state in states if state is not None and state.version == number), None)


def read_checkpoint(store: Store, version: int) -> TableState | None:
    """The checkpoint of exactly this version, if it is there and readable."""
    found = _read(store, checkpoint_path(version))
    return found if found is not None and found.version == version else None


def _read(store: Store, path: str) -> TableState | None:
    try:
        return decode_state(store.get(path), path)
    except (NotFoundError, CorruptError):
        # The log holds the same facts; `verify` is where damage is reported.
        return None


def write_checkpoints(store: Store, state: TableState, *, hint: bool = True) -> None:
    """After a commit. A crash before or between the two puts leaves the next opener more entries to read.

    Without `hint` only a numbered one is put, when it is due: steps of instants are followed by a commit that hints at both.

    Writers race here and an older state may overwrite a newer hint: it lags by as many versions as writers raced.
    """
    due = state.version % state.definition.properties.checkpoint_interval == 0
    if not (due or hint):
        return
    data = encode_state(state)
    try:
        if due:
            store.put(checkpoint_path(state.version), data)
        if hint:
            store.put(LATEST_PATH, data)
    except NeedlefishError:
        # The commit stands already, so nothing may be raised here; the next one writes the hint again.
        return


def write_base(store: Store, state: TableState) -> None:
    """What the log folds from once entries up to `state` are gone: here a failure is one."""
    store.put(checkpoint_path(state.version), encode_state(state))


def write_latest(store: Store, state: TableState) -> None:
    """The hint alone, whatever is due."""
    store.put(LATEST_PATH, encode_state(state))
