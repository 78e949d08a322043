"""Tagging a frame: keys to the levels, what they admit to its files, what is found back to the frame.

Keys go by range rather than by hash: a task then meets few files of a table that is sorted by key. Nothing is collected,
and what is shuffled is bounded by the keys. The result is a plan like any other: Spark runs it when it is asked for.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.model.schema import RESERVED, Field
from needlefish.spark.columns import named
from needlefish.spark.errors import our_errors
from needlefish.spark.reachable import check_reachable
from needlefish.spark.types import arrow_type, spark_type, type_texts
from needlefish.store import RetriedStore
from needlefish.table.conform import check_required
from needlefish.table.tag import PARCEL_TEXT, TAG_COLUMNS, LocateTask, ProbeTask, TagPlan, tag_fields


def tag_frame(frame: DataFrame, state: TableState, store: RetriedStore) -> DataFrame:
    """`frame` and where each key's row lives in this version of the table: chunkset, row and partition, or nulls."""
    check_reachable(store)
    fields = tag_fields(state.definition)
    with our_errors():
        _check(frame.schema, fields)
        keys = frame.select(*(_value(frame.schema, field).alias(field.name) for field in fields)).distinct()
        plan = TagPlan(state=state, store=store.config, delivered=tuple(arrow_type(f.dataType, f.name) for f in keys.schema))
        found = _found(keys, plan)
        same = [_same(_value(frame.schema, field), sf.col(name), field) for field, name in zip(fields, plan.names, strict=True)]
        # Spark would otherwise broadcast what it takes for small, through the driver's memory.
        return frame.join(found.hint("merge"), same, "left").drop(*plan.names)


def _found(keys: DataFrame, plan: TagPlan) -> DataFrame:
    parcels = keys.repartitionByRange(*_order(plan.state.definition)).mapInArrow(ProbeTask(plan=plan).__call__, PARCEL_TEXT)
    by_file = parcels.repartition("file").sortWithinPartitions("file")
    schema = StructType([StructField(field.name, spark_type(field.type)) for field in plan.result_schema])
    return by_file.mapInArrow(LocateTask(plan=plan).__call__, schema)


def _check(schema: StructType, fields: tuple[Field, ...]) -> None:
    for name in schema.names:
        if name.lower() in TAG_COLUMNS.names or name.lower().startswith(RESERVED):
            raise InvalidError(f"df has column {name!r}, which tag would add or use itself; drop it or rename it")
    folded = [name.lower() for name in schema.names]
    for field in fields:
        if folded.count(field.name.lower()) > 1:
            raise InvalidError(
                f"df has more than one column named {field.name!r}, and Spark does not regard case; drop or rename the others"
            )
    wanted = {field.name for field in fields}
    check_required(fields, type_texts(StructType([found for found in schema if found.name in wanted])))


def _value(schema: StructType, field: Field) -> Column:
    """The column; texts without a collation, under which more would be equal than is in the table."""
    found = named(field.name)
    return found.cast(StringType()) if isinstance(schema[field.name].dataType, StringType) else found


def _same(one: Column, other: Column, field: Field) -> Column:
    # A partition's column may be null, which is a partition of its own.
    return one.eqNullSafe(other) if field.nullable else one == other


def _order(definition: TableDefinition) -> list[Column]:
    """By partition, then by key: the order in which tables are written."""
    in_key = set(definition.key)
    fields = sorted(tag_fields(definition), key=lambda field: field.id in in_key)
    return [named(field.name) for field in fields]
