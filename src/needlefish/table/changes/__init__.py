"""What changed between two versions: rows that were added, replaced and removed, version by version, from the log alone.

The cost follows what changed: the runs that the entries name, the key columns of what came and went, and the rows themselves.
"""

from needlefish.table.changes.columns import CHANGE, VERSION, change_schema
from needlefish.table.changes.entries import changes_between
from needlefish.table.changes.rows import share_rows
from needlefish.table.changes.shares import Part, Share, VersionChange, packed, shares_of

__all__ = [
    "CHANGE",
    "VERSION",
    "Part",
    "Share",
    "VersionChange",
    "change_schema",
    "changes_between",
    "packed",
    "share_rows",
    "shares_of",
]
