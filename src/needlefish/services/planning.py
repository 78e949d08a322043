"""Plans as a table stands now: by policy they leave out what other plans are going to read, by hand they take what was chosen."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from needlefish.services.rewrite import CompactionPolicy, RewritePlan, plan_clustering, plan_compaction
from needlefish.table.planned import planned_files
from needlefish.table.snapshot import Snapshot

_CHOSEN = ("partitions", "where", "files")
_POLICY = tuple(found.name for found in fields(CompactionPolicy))
# The options of each.
COMPACTION = (*_CHOSEN, *_POLICY)
CLUSTERING = ("by", "zorder", *_CHOSEN, "target_bytes", "most_bytes")


def plan_rewrite(snapshot: Snapshot, kind: str, options: Mapping[str, Any]) -> RewritePlan | None:
    """None if nothing is worth it. `options` are those of the kind."""
    given = dict(options)
    if not any(given.get(name) is not None for name in _CHOSEN):
        # What is chosen by hand and planned already is refused by the schedule, which names the plan.
        given["without"] = planned_files(snapshot.store, snapshot.state, cancellable=True)
    if kind == "clustering":
        return plan_clustering(snapshot, **given)
    policy = CompactionPolicy(**{name: given.pop(name) for name in _POLICY if name in given})
    return plan_compaction(snapshot, policy, **given)
