"""Adopting a directory of Parquet files as a table: nothing is rewritten or moved, every file is looked at once.

The table comes into being with one entry that has all of it. Until then there are orphan runs and no table, so that a
crash at any point leaves a directory that can be adopted again.
"""

from needlefish.services.adopt.columns import inferred_schema
from needlefish.services.adopt.commit import check_no_table, commit_adoption
from needlefish.services.adopt.listing import FoundFile, list_files
from needlefish.services.adopt.repeats import KEY_TEXT, REPEAT_TEXT, ConfirmTask, HashTask, Suspect, first_repeat, suspects
from needlefish.services.adopt.task import AdoptTask

__all__ = [
    "KEY_TEXT",
    "REPEAT_TEXT",
    "AdoptTask",
    "ConfirmTask",
    "FoundFile",
    "HashTask",
    "Suspect",
    "check_no_table",
    "commit_adoption",
    "first_repeat",
    "inferred_schema",
    "list_files",
    "suspects",
]
