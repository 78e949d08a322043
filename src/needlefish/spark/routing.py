"""Frames on their way to the tasks that write: each row's partition, and the columns to sort by."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from needlefish.model.definition import TableDefinition
from needlefish.spark.columns import named
from needlefish.table.partition import PARTITION_COLUMN, RouteTask, computed_columns


def routed(frame: DataFrame, definition: TableDefinition) -> tuple[DataFrame, list[str]]:
    """The frame with its rows' partitions where they are no columns of it, and the columns of (partition, key)."""
    columns = computed_columns(definition)
    order = [field.name for field in definition.key_fields]
    if all(column.column.transform == "identity" for column in columns):
        return frame, list(dict.fromkeys([*(column.source.name for column in columns if column.source), *order]))
    schema = StructType([*frame.schema.fields, StructField(PARTITION_COLUMN, StringType())])
    return frame.mapInArrow(RouteTask(definition=definition).__call__, schema), [PARTITION_COLUMN, *order]


def key_order(names: Sequence[str]) -> list[Column]:
    return [named(name) for name in names]
