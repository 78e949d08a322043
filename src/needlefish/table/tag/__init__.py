"""Tagging: where the current rows of many keys live, as work for tasks that see a share of the keys or of the files.

`ProbeTask` takes keys and asks the three levels which files may hold them; `LocateTask` takes files with their keys and
reads. What travels between them is at most a few times the keys, whatever the number of files.
"""

from needlefish.table.tag.keys import tag_fields
from needlefish.table.tag.locate import LocateTask
from needlefish.table.tag.parcel import PARCEL_TEXT
from needlefish.table.tag.plan import TAG_COLUMNS, TagPlan
from needlefish.table.tag.probe import ProbeTask

__all__ = ["PARCEL_TEXT", "TAG_COLUMNS", "LocateTask", "ProbeTask", "TagPlan", "tag_fields"]
