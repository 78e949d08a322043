"""Scheduling: a plan is put, then the entry that requests it. A crash between the two leaves an object that a clean removes."""

from needlefish.errors import ConflictError
from needlefish.format.log_entry import plan_path
from needlefish.model.instant import Instant, InstantId, InstantStep, PlanSummary
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.rewrite.plan import RewritePlan, encode_plan
from needlefish.store import Store
from needlefish.table.planned import planned_files
from needlefish.timeline import Log, Proposal
from needlefish.version import WRITER


def schedule(
    store: Store, state: TableState, plan: RewritePlan, runtime: Runtime = SYSTEM, *, cancellable: bool = True
) -> tuple[TableState, Instant]:
    """Makes a plan known, for anybody to execute. No two plans read one file."""
    instant = InstantId(runtime.new_owner())
    store.put(plan_path(instant), encode_plan(plan))
    summary = PlanSummary(
        cancellable=cancellable, files=len(plan.inputs), rows=plan.rows, bytes=plan.bytes, partitions=len(plan.partitions)
    )

    def propose(newest: TableState | None) -> Proposal:
        assert newest is not None, "the log of an open table never becomes empty"
        check_free(store, newest, plan)
        return Proposal(action="request", instant=InstantStep(id=instant, step="requested", action=plan.action, plan=summary))

    try:
        after = Log(store, WRITER, runtime).append(state, propose)
    except ConflictError:
        store.delete([plan_path(instant)])
        raise
    found = after.instant(instant)
    assert found is not None, "what was just requested is in the state after it"
    return after, found


def check_free(store: Store, state: TableState, plan: RewritePlan) -> None:
    """Refuses a plan over files that another plan reads already."""
    planned = planned_files(store, state, cancellable=True)
    taken = {planned[key] for key in plan.inputs if key in planned}
    if taken:
        raise ConflictError(
            f"{store.uri}: plan {min(taken)} reads some of these files already; execute or cancel it first, or plan other files"
        )


def cancel(store: Store, state: TableState, instant: InstantId, runtime: Runtime = SYSTEM, *, force: bool = False) -> TableState:
    """Asks a plan to stop: from this entry on it cannot commit. Immutable ones only with `force`."""

    def propose(newest: TableState | None) -> Proposal | None:
        assert newest is not None, "the log of an open table never becomes empty"
        found = plan_named(store, newest, instant)
        if found.plan is not None and not found.plan.cancellable and not force:
            raise ConflictError(f"plan {instant} is immutable; execute it, or cancel it with force=True")
        if found.cancelled or found.undone_by is not None:
            return None
        return Proposal(action="cancel", instant=InstantStep(id=instant, step="cancelled"))

    return Log(store, WRITER, runtime).append(state, propose)


def plan_named(store: Store, state: TableState, instant: str) -> Instant:
    """The plan of this id that is not over."""
    found = state.instant(instant)
    if found is None or found.plan is None:
        known = ", ".join(other.id for other in state.instants if other.plan is not None) or "none"
        raise ConflictError(f"{store.uri} has no plan {instant!r} that is not over; those that are not: {known}")
    return found
