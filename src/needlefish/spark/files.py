"""Parquet, CSV and JSON files as frames that fit a table.

CSV and JSON are read under the table's own types in FAILFAST mode: a cell that does not fit stops the read, where
Spark would otherwise put a null in its place.
"""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from needlefish.errors import InvalidError
from needlefish.model.types import is_nested
from needlefish.spark.errors import our_errors
from needlefish.spark.paths import file_uri
from needlefish.spark.types import spark_type

_OPTIONS: dict[str, dict[str, str | bool]] = {
    # Without merging, columns that the first file happens to lack would be dropped in silence.
    "parquet": {"mergeSchema": True},
    # Quotes are doubled inside quotes, as RFC 4180 and nearly every writer have it; the header of every file is checked.
    # Spark takes an empty text in quotes for null as well, unless null is spelled in a way that no cell is.
    "csv": {"mode": "FAILFAST", "header": True, "escape": '"', "enforceSchema": False, "nullValue": "\x00null"},
    "json": {"mode": "FAILFAST"},
}


def read_files(spark: SparkSession, files: Sequence[str], form: str, schema: pa.Schema, *, multiline: bool = False) -> DataFrame:
    """A frame over `files` (absolute local paths, or addresses that Spark can reach), with the columns that they have.

    `multiline` is for CSV cells that hold line breaks, and for JSON files that are one document rather than lines.
    """
    paths = [file if "://" in file else file_uri(file) for file in files]
    options = _OPTIONS[form] | ({} if form == "parquet" else {"multiLine": multiline})
    with our_errors():
        if form == "parquet":
            return spark.read.options(**options).parquet(*paths)
        # The names alone, everything as text: the header of a CSV file, or one pass over JSON.
        names = spark.read.options(**options, primitivesAsString=True).format(form).load(paths).columns
        return spark.read.options(**options).schema(_schema_of(names, form, schema)).format(form).load(paths)


def _schema_of(names: Sequence[str], form: str, schema: pa.Schema) -> StructType:
    """The table's types in the order of the files; CSV has no names in its rows, so that the order matters."""
    for name in names:
        if name not in schema.names:
            raise InvalidError(f"the files have column {name!r}, which the table does not have; its columns are {', '.join(schema.names)}")
        if form == "csv":
            _check_flat(schema.field(name))
    return StructType([StructField(name, spark_type(schema.field(name).type)) for name in names])


def _check_flat(field: pa.Field) -> None:
    if is_nested(field.type) or pa.types.is_binary(field.type):
        raise InvalidError(f"CSV cannot carry column {field.name!r} of type {field.type}; leave the column out, or deliver Parquet or JSON")
