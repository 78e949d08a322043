"""Partition keys: plain and computed columns, the path they give, and predicates mapped through them."""

from needlefish.table.partition.parse import parse_partition_by
from needlefish.table.partition.path import NULL_TEXT, path_of, unescape
from needlefish.table.partition.route import PARTITION_COLUMN, RouteTask, partition_paths, values_of_path
from needlefish.table.partition.transform import Computed, computed_columns

__all__ = [
    "NULL_TEXT",
    "PARTITION_COLUMN",
    "Computed",
    "RouteTask",
    "computed_columns",
    "parse_partition_by",
    "partition_paths",
    "path_of",
    "unescape",
    "values_of_path",
]
