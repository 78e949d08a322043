"""Compaction and clustering: the work itself. Files of a version are written anew, and take the place of what they were made from.

Promises: no visible row changes; what others commit meanwhile is never undone. Must not know: who may execute a plan, and when.
"""

from needlefish.services.rewrite.cluster_policy import plan_clustering
from needlefish.services.rewrite.commit import Complete, Rewrite, commit_rewrite
from needlefish.services.rewrite.compact import CompactTask
from needlefish.services.rewrite.here import rewrite_here, written_here
from needlefish.services.rewrite.plan import Group, RewritePlan, Target, decode_plan, encode_plan
from needlefish.services.rewrite.policy import CompactionPolicy, plan_compaction
from needlefish.services.rewrite.removal import removal_runs

__all__ = [
    "CompactTask",
    "CompactionPolicy",
    "Complete",
    "Group",
    "Rewrite",
    "RewritePlan",
    "Target",
    "commit_rewrite",
    "decode_plan",
    "encode_plan",
    "plan_clustering",
    "plan_compaction",
    "removal_runs",
    "rewrite_here",
    "written_here",
]
