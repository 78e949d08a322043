"""The old end of the log: entries that no readable version needs go, once a checkpoint stands for them.

They go after the entry that completes the clean, which says up to where nobody needs them, and not before a writer that has just
seen the end of the log must have put its entry there: else the number would be free again, and the entry lost. A crash before they
are gone leaves them to the next clean; a crash before that entry leaves all of them, and the next clean reads them again.
"""

from collections.abc import Iterator

from needlefish.format.log_entry import CHECKPOINT_PREFIX, LOG_PREFIX, checkpoint_version, log_path
from needlefish.model.log import TableState
from needlefish.services.clean.result import Removal
from needlefish.store import Store
from needlefish.timeline.checkpoint import read_checkpoint, read_latest, write_base, write_latest
from needlefish.timeline.replay import folded_at


def old_entries(store: Store, oldest: int, before_ms: int) -> Iterator[Removal]:
    """Entries before `oldest` that were put before a time, in order, and checkpoints that nobody folds from any more."""
    why = f"older than version {oldest}, the oldest that stays readable"
    end = log_path(oldest)
    for info in store.list(LOG_PREFIX):
        if info.path >= end or info.modified_ms > before_ms:
            break
        if len(info.path) == len(end):
            yield Removal(path=info.path, bytes=info.size, kind="old log entry", why=why)
    for info in store.list(CHECKPOINT_PREFIX):
        number = checkpoint_version(info.path)
        if number is not None and number < oldest - 1:
            yield Removal(path=info.path, bytes=info.size, kind="old checkpoint", why=why)


def put_base(store: Store, oldest: int) -> None:
    """A checkpoint of the version before the first entry that stays, which everything after it folds from."""
    if oldest and read_checkpoint(store, oldest - 1) is None:
        write_base(store, folded_at(store, oldest - 1))


def put_hint(store: Store, state: TableState) -> None:
    """Openers begin with the hint: one that a slow or failed writer left behind must not lead to entries that are gone."""
    hint = read_latest(store)
    if hint is None or hint.version < state.cleaned:
        write_latest(store, state)
