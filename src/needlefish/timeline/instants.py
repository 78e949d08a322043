"""Instants from entries: pure, as the rest of the fold, so that every reader agrees on who may do what."""

from dataclasses import replace

from needlefish.errors import CorruptError
from needlefish.format.log_entry import log_path
from needlefish.model.instant import Instant, InstantStep
from needlefish.model.log import LogEntry

Instants = tuple[Instant, ...]
# By id.
Known = dict[str, Instant]


def fold_instants(instants: Instants, entry: LogEntry) -> Instants:
    """The instants that are not over after `entry`."""
    step = entry.instant
    if step is None:
        return instants
    try:
        known: Known = {found.id: found for found in instants}
        return tuple(_after(known, step, entry.version).values())
    except _ImpossibleError as error:
        raise CorruptError(f"{log_path(entry.version)}: {error}") from None


class _ImpossibleError(Exception):
    """A step that no instant in this state can take."""


def _after(known: Known, step: InstantStep, version: int) -> Known:
    if step.step == "requested":
        return known | {step.id: _new(known, step, version)}
    if step.step == "inflight":
        return _claimed(known, step, version)
    found = _known(known, step)
    if found.target is not None and step.step != "completed":
        # Some of what it undoes may be gone already: it can only be finished.
        raise _ImpossibleError(f"gives up rollback {found.id}")
    if step.step == "cancelled":
        return known | {step.id: replace(found, cancelled=True)}
    _check_newest(found, step)
    left = {key: instant for key, instant in known.items() if key != step.id}
    return left if found.target is None else _undone(left, found)


def _new(known: Known, step: InstantStep, version: int) -> Instant:
    if step.id in known or step.action is None:
        raise _ImpossibleError(f"begins instant {step.id}, which is there already or does not say what it does")
    if step.target is not None and step.step != "inflight":
        raise _ImpossibleError(f"begins rollback {step.id} without a claim, so that its target would go on")
    return Instant(id=step.id, action=step.action, requested=version, plan=step.plan, target=step.target)


def _claimed(known: Known, step: InstantStep, version: int) -> Known:
    found = known.get(step.id) or _new(known, step, version)
    if step.claim is None or step.claim.epoch != found.epoch + 1 or found.undone_by is not None or found.cancelled:
        raise _ImpossibleError(f"claims instant {step.id}, which is not to be had")
    after = known | {step.id: replace(found, claim=step.claim, epoch=step.claim.epoch)}
    if found.target is None or step.id in known:
        return after
    target = known.get(found.target)
    if target is None or target.undone_by is not None or target.target is not None:
        raise _ImpossibleError(f"rolls back instant {found.target}, which is over, being rolled back already, or a rollback itself")
    return after | {target.id: replace(target, undone_by=step.id)}


def _known(known: Known, step: InstantStep) -> Instant:
    found = known.get(step.id)
    if found is None:
        raise _ImpossibleError(f"speaks of instant {step.id}, which is over or was never requested")
    return found


def _check_newest(found: Instant, step: InstantStep) -> None:
    if found.claim is None or found.claim != step.claim or found.undone_by is not None:
        raise _ImpossibleError(f"ends instant {found.id} with a claim that is not the newest")
    if step.step == "completed" and found.cancelled:
        raise _ImpossibleError(f"completes instant {found.id}, which was cancelled")
    if step.step == "rolled_back" and found.retries:
        # Its objects must go first, which only a rollback sees to.
        raise _ImpossibleError(f"gives up plan {found.id}, which stands until it is completed")


def _undone(known: Known, rollback: Instant) -> Known:
    """A plan that retries is as if nobody had tried; everything else is over."""
    assert rollback.target is not None, "only rollbacks have targets"
    target = known.get(rollback.target)
    if target is None:
        raise _ImpossibleError(f"rolls back instant {rollback.target}, which is over")
    if target.retries:
        return known | {target.id: replace(target, claim=None, undone_by=None)}
    return {key: instant for key, instant in known.items() if key != target.id}
