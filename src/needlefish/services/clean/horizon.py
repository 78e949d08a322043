"""The oldest version that must stay readable."""

from collections.abc import Iterable

from needlefish.format.log_entry import log_path
from needlefish.model.instant import Instant
from needlefish.model.log import STEPS, TableState
from needlefish.services.clean.options import Rule
from needlefish.store import Store
from needlefish.timeline.replay import read_entries


def horizon(store: Store, state: TableState, rule: Rule, now_ms: int, dead: Iterable[str] = ()) -> int:
    """Never before `state.oldest`. Instants that are `dead` hold nothing back.

    The table at any moment of the time to be kept is a version whose entry came before that moment, so that the last entry
    before it is the oldest one needed; the same goes for readers, who may go on with what was newest when the grace began.
    """
    highest = min(_last_changes(store, state, rule.versions), held_by(state, dead))
    if highest <= state.oldest:
        return state.oldest
    return _old_enough(store, state.oldest, highest, now_ms - rule.version_ms)


def held_by(state: TableState, dead: Iterable[str] = ()) -> int:
    """The least version that a claim reads; without any, the newest."""
    ignored = set(dead)
    bases = (found.claim.base for found in state.instants if found.claim is not None and found.id not in ignored)
    return min(bases, default=state.version)


def rivals(state: TableState) -> list[Instant]:
    """Other cleans at work."""
    return [found for found in state.instants if found.action == "clean" and found.claim is not None]


def _last_changes(store: Store, state: TableState, count: int) -> int:
    """The oldest of the last `count` versions that changed the table."""
    for entry in read_entries(store, state.oldest, state.version):
        count -= entry.action not in STEPS
        if not count:
            return entry.version
    return state.oldest


def _old_enough(store: Store, low: int, high: int, before_ms: int) -> int:
    """The greatest version from `low` to `high` whose entry was put before a time; times rise with versions."""

    def is_old(version: int) -> bool:
        return store.head(log_path(version)).modified_ms <= before_ms

    if is_old(high):
        return high
    high -= 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_old(middle) else (low, middle - 1)
    return low
