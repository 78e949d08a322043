"""What to cluster: everything that is not clustered that way yet, or what somebody chose by hand."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from needlefish.errors import InvalidError
from needlefish.model.chunkset import Curve
from needlefish.model.definition import TableDefinition
from needlefish.model.types import is_nested
from needlefish.services.rewrite.picks import Budget, Pick, Selection, group_of, in_key_order, picks_by_partition
from needlefish.services.rewrite.plan import Group, RewritePlan, make_plan
from needlefish.services.rewrite.policy import target_of
from needlefish.services.rewrite.zorder import MOST_COLUMNS
from needlefish.table.snapshot import Snapshot

_MOST_BYTES = 8 * 1024**3


def plan_clustering(
    snapshot: Snapshot,
    by: Sequence[str] | None = None,
    *,
    zorder: bool = False,
    partitions: Mapping[str, object] | None = None,
    where: str | None = None,
    files: Collection[str] | None = None,
    without: Collection[str] = (),
    target_bytes: int | None = None,
    most_bytes: int = _MOST_BYTES,
) -> RewritePlan | None:
    """Sorts rows anew by columns, one after the other or all at once (`zorder`); None if nothing is left to sort.

    Without `by` it is the row key. What is chosen by hand is sorted even if it was before; files `without` are left alone.
    """
    definition = snapshot.state.definition
    order, curve = _order(definition, by, zorder=zorder)
    target = replace(target_of(definition.properties), **_size(target_bytes))
    selection = Selection(partitions=partitions, where=where, files=files, without=without)
    budget = Budget(most_bytes)
    groups: list[Group] = []
    for partition, picks in picks_by_partition(snapshot, selection):
        chosen = picks if selection.is_by_hand else _unclustered(picks, order, curve)
        taken = [pick for pick in in_key_order(chosen) if budget.takes(1, pick.bytes)]
        groups += [group_of(partition, taken)] if taken else []
    if not groups:
        return None
    return make_plan(
        "clustering",
        snapshot.state.version,
        groups,
        target,
        order=order,
        curve=curve,
        left_files=budget.left_files,
        left_bytes=budget.left_bytes,
    )


def _size(target_bytes: int | None) -> dict[str, int]:
    if target_bytes is None:
        return {}
    if isinstance(target_bytes, bool) or not isinstance(target_bytes, int) or target_bytes < 1:
        raise InvalidError(f"target_bytes is {target_bytes!r}; give the bytes that a chunkset is to have, such as {128 * 1024**2}")
    return {"bytes": target_bytes}


def _order(definition: TableDefinition, by: Sequence[str] | None, *, zorder: bool) -> tuple[tuple[int, ...], Curve]:
    """The columns as field ids; sorting by the row key itself has none."""
    if by is not None and (isinstance(by, str) or not by):
        raise InvalidError(
            f"by is {by!r}; give a list of column names such as {list(definition.schema.names[:2])}, or leave it out for the key"
        )
    fields = definition.key_fields if by is None else [definition.schema.field(name, "by") for name in by]
    nested = next((field for field in fields if is_nested(field.arrow_type)), None)
    if nested is not None:
        raise InvalidError(f"by names column {nested.name!r} of type {nested.type}; nested values have no order: choose another")
    ids = tuple(field.id for field in fields)
    if len(set(ids)) < len(ids):
        raise InvalidError(f"by names a column twice: {', '.join(by or ())}; name each once")
    if not zorder:
        return (() if ids == definition.key else ids), "linear"
    if not 2 <= len(ids) <= MOST_COLUMNS:
        raise InvalidError(f"by has {len(ids)} columns; zorder is for 2 to {MOST_COLUMNS}: add one, or leave zorder out")
    return ids, "zorder"


def _unclustered(picks: Sequence[Pick], order: tuple[int, ...], curve: Curve) -> list[Pick]:
    if order:
        return [pick for pick in picks if (pick.order, pick.curve) != (order, curve)]
    return _overlapping(picks)


def _overlapping(picks: Sequence[Pick]) -> list[Pick]:
    """By row key: those that are in no order, and those that share a stretch of keys with another."""
    found = {pick.key: pick for pick in picks if not pick.is_sorted}
    furthest: Pick | None = None
    for pick in in_key_order(picks):
        if furthest is not None and pick.first_key <= furthest.last_key:
            found |= {furthest.key: furthest, pick.key: pick}
        if furthest is None or pick.last_key > furthest.last_key:
            furthest = pick
    return list(found.values())
