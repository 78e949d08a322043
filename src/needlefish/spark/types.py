"""Spark's types and ours. Spark has no unsigned integers: it sees the next wider signed type, as its Parquet reader does."""

import pyarrow as pa
from pyspark.sql import types as st

from needlefish.errors import InvalidError
from needlefish.model.schema import Schema, schema_from_arrow
from needlefish.model.types import type_text

_FROM_SPARK: dict[type[st.DataType], pa.DataType] = {
    st.BooleanType: pa.bool_(),
    st.ByteType: pa.int8(),
    st.ShortType: pa.int16(),
    st.IntegerType: pa.int32(),
    st.LongType: pa.int64(),
    st.FloatType: pa.float32(),
    st.DoubleType: pa.float64(),
    st.StringType: pa.string(),
    st.VarcharType: pa.string(),
    st.CharType: pa.string(),
    st.BinaryType: pa.binary(),
    st.DateType: pa.date32(),
    st.TimestampType: pa.timestamp("us", tz="UTC"),
    st.TimestampNTZType: pa.timestamp("us"),
}
_TO_SPARK: dict[pa.DataType, st.DataType] = {
    **{kind: spark() for spark, kind in _FROM_SPARK.items() if spark not in (st.VarcharType, st.CharType)},
    pa.uint8(): st.ShortType(),
    pa.uint16(): st.IntegerType(),
    pa.uint32(): st.LongType(),
    pa.uint64(): st.DecimalType(20, 0),
}


def schema_from_spark(spark: st.StructType) -> Schema:
    return schema_from_arrow(pa.schema([pa.field(f.name, arrow_type(f.dataType, f.name), nullable=f.nullable) for f in spark]))


def type_texts(spark: st.StructType) -> dict[str, str]:
    """Each column's type as the table would write it."""
    return {field.name: type_text(arrow_type(field.dataType, field.name), field.name) for field in spark}


def arrow_type(kind: st.DataType, column: str) -> pa.DataType:
    """What carries values of a Spark type; `column` is named when nothing does."""
    match kind:
        case st.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case st.ArrayType():
            return pa.list_(pa.field("element", arrow_type(kind.elementType, column)))
        case st.MapType():
            return pa.map_(arrow_type(kind.keyType, column), arrow_type(kind.valueType, column))
        case st.StructType():
            return pa.struct([pa.field(f.name, arrow_type(f.dataType, column)) for f in kind])
    found = _FROM_SPARK.get(type(kind))
    if found is None:
        raise InvalidError(f"df column {column!r} has Spark type {kind.simpleString()}, which a table cannot hold; cast it")
    return found


def schema_to_spark(schema: Schema) -> st.StructType:
    return st.StructType([st.StructField(field.name, spark_type(field.arrow_type), field.nullable) for field in schema.fields])


def spark_type(kind: pa.DataType) -> st.DataType:
    if kind in _TO_SPARK:
        return _TO_SPARK[kind]
    if pa.types.is_decimal(kind):
        return st.DecimalType(kind.precision, kind.scale)
    if pa.types.is_map(kind):
        return st.MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if pa.types.is_list(kind):
        return st.ArrayType(spark_type(kind.value_type))
    return st.StructType([st.StructField(field.name, spark_type(field.type)) for field in kind])
