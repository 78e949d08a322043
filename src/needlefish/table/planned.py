"""Immutable plans: what a writer must leave alone until they have completed.

A cancellable plan is no writer's business. An immutable one has a promise: nobody hides a row of its inputs or takes one away.
"""

from collections.abc import Iterable

import msgspec

from needlefish.errors import ConflictError, NotFoundError
from needlefish.format.envelope import unseal
from needlefish.format.log_entry import plan_path
from needlefish.model.log import TableState
from needlefish.store import Store


class _Group(msgspec.Struct):
    """Of a plan's group only the files count here."""

    files: tuple[str, ...] = ()


class _Inputs(msgspec.Struct):
    """Of any plan, what it reads."""

    groups: tuple[_Group, ...] = ()


def planned_files(store: Store, state: TableState, *, cancellable: bool = False) -> dict[str, str]:
    """The keys of files that plans are going to read, each with the plan's id; of immutable plans alone unless told otherwise."""
    plans = (found for found in state.instants if found.plan is not None and (cancellable or not found.plan.cancellable))
    return {key: plan.id for plan in plans for key in _inputs(store, plan.id)}


def _inputs(store: Store, plan_id: str) -> Iterable[str]:
    path = plan_path(plan_id)
    try:
        found = unseal(store.get(path), _Inputs, path)
    except NotFoundError:
        # Over by now, and cleaned: the entry that ended it comes after the state at hand.
        return ()
    return (key for group in found.groups for key in group.files)


def check_unplanned(store: Store, state: TableState, keys: Iterable[str], but: str | None = None) -> None:
    """Refuses a commit that would touch a file which an immutable plan (`but` one: the commit's own) is going to read."""
    if not any(found.plan is not None and not found.plan.cancellable and found.id != but for found in state.instants):
        return
    planned = planned_files(store, state)
    for key in keys:
        if planned.get(key, but) != but:
            raise ConflictError(
                f"{store.uri}: plan {planned[key]} is immutable and reads a file that this change would touch; execute the plan first, then repeat the change"
            )
