"""Table services as a handle calls them: kinds and options checked, plans made, executed where they fit."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from needlefish.api.worker import worker_for
from needlefish.errors import InvalidError
from needlefish.model.instant import InstantId
from needlefish.model.log import TableState
from needlefish.services.clean import CleanOptions, CleanResult, clean
from needlefish.services.execute import ServiceResult, execute
from needlefish.services.planning import CLUSTERING, COMPACTION, plan_rewrite
from needlefish.services.schedule import schedule
from needlefish.services.upkeep import MergeResult, RollbackResult, merge_runs, roll_back_dead
from needlefish.store import RetriedStore
from needlefish.table.snapshot import RunReaders, Snapshot

# What can be planned, and what just runs.
PLANNED = ("compaction", "clustering")
UNPLANNED = ("merge", "rollback", "clean")

Result = ServiceResult | MergeResult | RollbackResult | CleanResult

_CLEAN = tuple(found.name for found in fields(CleanOptions))


def schedule_service(
    store: RetriedStore, state: TableState, readers: RunReaders, kind: str, options: Mapping[str, object], *, cancellable: bool
) -> tuple[TableState, str | None]:
    """Plans and makes the plan known; no id if nothing is worth it."""
    if kind not in PLANNED:
        also = f" ({kind} needs no plan: run it)" if kind in UNPLANNED else ""
        raise InvalidError(f"kind is {kind!r}; plans are made for {' and '.join(PLANNED)}{also}")
    check_options(kind, options, COMPACTION if kind == "compaction" else CLUSTERING)
    plan = plan_rewrite(Snapshot(store=store, state=state, readers=readers), kind, options)
    if plan is None:
        return state, None
    after, instant = schedule(store, state, plan, cancellable=cancellable)
    return after, instant.id


def execute_service(store: RetriedStore, state: TableState, plan_id: str) -> tuple[TableState, ServiceResult]:
    if not isinstance(plan_id, str) or not plan_id:
        raise InvalidError(f"plan_id is {plan_id!r}; give the id that schedule() returned, or one that plans() shows")
    return execute(store, state, InstantId(plan_id), worker_for(store))


def run_unplanned(store: RetriedStore, state: TableState, kind: str, options: Mapping[str, Any]) -> tuple[TableState, Result]:
    """A merge, a clean, or the rollback of all that is dead."""
    if kind == "clean":
        check_options(kind, options, _CLEAN)
        return clean(store, state, CleanOptions(**options))
    check_options(kind, options, ())
    return merge_runs(store, state) if kind == "merge" else roll_back_dead(store, state)


def check_kind(kind: object) -> str:
    if kind not in (*PLANNED, *UNPLANNED):
        raise InvalidError(f"kind is {kind!r}; the services are {', '.join((*PLANNED, *UNPLANNED))}")
    return str(kind)


def check_options(kind: str, options: Mapping[str, object], known: Sequence[str]) -> None:
    wrong = next((name for name in options if name not in known), None)
    if wrong is not None:
        remedy = f"it takes {', '.join(known)}" if known else "it takes none"
        raise InvalidError(f"{kind} has the option {wrong!r}, which it does not know; {remedy}")
