"""The log: the only place where anything becomes true.

Promises: versions without gaps; each entry written by exactly one writer, once; a state that is the fold of its entries.
Must not know: what runs contain, tables, Spark.
"""

from needlefish.timeline.fold import fold
from needlefish.timeline.log import Log, Proposal
from needlefish.timeline.replay import catch_up, read_newest, read_state_at, version_at_time
from needlefish.timeline.work import Start, Work, commit, working

__all__ = [
    "Log",
    "Proposal",
    "Start",
    "Work",
    "catch_up",
    "commit",
    "fold",
    "read_newest",
    "read_state_at",
    "version_at_time",
    "working",
]
