"""Rollback: an instant that undoes another. From its first entry on the other cannot commit; then its objects are deleted.

A worker that dies on the way leaves a rollback that the next one takes over: deleting twice does no harm, and the objects of an
attempt carry its name, so that no later attempt loses any.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager

from needlefish.errors import ConflictError, CorruptError, NotFoundError
from needlefish.format.log_entry import ROOT, plan_path
from needlefish.model.chunkset import DATA_PREFIX, UNPARTITIONED
from needlefish.model.instant import Instant, InstantId
from needlefish.model.log import REWRITES, TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.dead import is_dead
from needlefish.services.rewrite.plan import decode_plan
from needlefish.store import Store
from needlefish.timeline import Proposal, Start, Work, catch_up, working
from needlefish.timeline.heartbeat import heartbeat_path, read_pulses
from needlefish.timeline.work import claimed

# Where attempts put things besides data.
_FOLDERS = (f"{ROOT}metadata/", f"{ROOT}index/", f"{ROOT}work/")
# Objects deleted at once.
_BATCH = 1_000

# Looks at the state that the rollback would follow; raises ConflictError where its target must not be touched.
Admit = Callable[[TableState, Instant], None]


def roll_back(
    store: Store, state: TableState, instant: InstantId, runtime: Runtime = SYSTEM, *, reason: str, admit: Admit | None = None
) -> TableState:
    """Undoes an instant: one that `admit` allows, by default one that is dead. Returns the state after it.

    An instant that is over already is left as it is.
    """
    state = catch_up(store, state) or state
    target = state.instant(instant)
    if target is None:
        return state
    if target.target is not None:
        return _take_over(store, state, target, runtime)
    if target.undone_by is not None:
        rollback = state.instant(target.undone_by)
        assert rollback is not None, "what undoes an instant is over no sooner than the instant"
        return _take_over(store, state, rollback, runtime)

    allowed = admit or _only_dead(store, runtime)

    def check(newest: TableState) -> None:
        found = newest.instant(instant)
        if found is None or found.undone_by is not None:
            raise ConflictError(f"{store.uri}: instant {instant} is over, or somebody else rolls it back already")
        allowed(newest, found)

    try:
        with working(store, state, Start(action="rollback", target=instant, reason=reason), runtime, check) as work:
            return _undo(work, instant)
    except ConflictError:
        newest = catch_up(store, state) or state
        found = newest.instant(instant)
        if found is None or found.claim != target.claim:
            # Somebody was first, with this rollback or with the instant itself.
            return newest
        raise


def _only_dead(store: Store, runtime: Runtime) -> Admit:
    def admit(newest: TableState, target: Instant) -> None:
        if not is_dead(store, newest, target, read_pulses(store, newest.definition.properties, runtime)):
            owner = target.claim.owner if target.claim is not None else "nobody yet"
            raise ConflictError(f"{store.uri}: instant {target.id} is alive or still young (executed by {owner}); leave it alone")

    return admit


def _take_over(store: Store, state: TableState, rollback: Instant, runtime: Runtime) -> TableState:
    """Finishes a rollback whose worker is dead."""
    assert rollback.target is not None, "only rollbacks are taken over"

    def admit(newest: TableState) -> None:
        found = newest.instant(rollback.id)
        if found is not None and not is_dead(store, newest, found, read_pulses(store, newest.definition.properties, runtime)):
            owner = found.claim.owner if found.claim is not None else "nobody"
            raise ConflictError(f"{store.uri}: {owner} is rolling back instant {rollback.target} right now; wait for it")

    taken: AbstractContextManager[Work] = claimed(store, state, rollback.id, runtime, admit)
    try:
        with taken as work:
            return _undo(work, rollback.target)
    except NotFoundError:
        return catch_up(store, state) or state


def _undo(work: Work, instant: InstantId) -> TableState:
    """A crash on the way leaves fewer orphans, and the rollback to be taken over."""
    target = work.state.instant(instant)
    assert target is not None, "a target is over no sooner than its rollback"
    if target.claim is not None:
        delete_objects(work.store, _objects_of(work.store, target))
    after = work.commit(work.state, lambda newest: Proposal(action="rollback"))
    gone = [heartbeat_path(target.claim.attempt)] if target.claim is not None else []
    if target.plan is not None and after.instant(instant) is None:
        gone.append(plan_path(instant))
    work.store.delete(gone)
    return after


def _objects_of(store: Store, target: Instant) -> Iterator[str]:
    """All that an attempt has put: the last part of its path, or of a folder's, begins with its id."""
    assert target.claim is not None, "without an attempt there are no objects"
    attempt = target.claim.attempt
    for folder in (*_FOLDERS, *_data_folders(store, target)):
        for found in store.list(folder):
            if any(part.startswith(attempt) for part in found.path.rsplit("/", 2)[1:]):
                yield found.path


def _data_folders(store: Store, target: Instant) -> Iterable[str]:
    """A rewrite writes where it reads; a writer may write anywhere, and a clean or merge writes no data."""
    if target.action in ("clean", "merge", "index", "rebuild", "delete"):
        return ()
    if target.action not in REWRITES:
        return (DATA_PREFIX,)
    try:
        plan = decode_plan(store.get(plan_path(target.id)), plan_path(target.id))
    except (NotFoundError, CorruptError):
        return (DATA_PREFIX,)
    return tuple(DATA_PREFIX if part == UNPARTITIONED else f"{DATA_PREFIX}{part}/" for part in plan.partitions)


def delete_objects(store: Store, paths: Iterable[str]) -> int:
    """Deletes in batches, so that neither memory nor a request grows with them; how many there were."""
    count, batch = 0, []
    for path in paths:
        batch.append(path)
        if len(batch) == _BATCH:
            store.delete(batch)
            count, batch = count + len(batch), []
    store.delete(batch)
    return count + len(batch)
