"""Tables that are declared in a catalog by CREATE TABLE … USING needlefish.

When such a table is read, Spark hands over the schema that was declared and none of the options. So the options travel in the schema, as
metadata of its first column. The store's own are left out, since secrets may be among them: those come from the environment.
"""

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from needlefish.spark.source.options import READING

_NOTE = "needlefish"


def with_note(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema with the options in it."""
    first, *others = schema.fields
    note = json.dumps({name: options[name] for name in READING if name in options})
    metadata = {**(first.metadata or {}), _NOTE: note}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def with_noted(options: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a read, with those that the schema carries; what the query itself says comes first."""
    note = (schema.fields[0].metadata or {}).get(_NOTE) if schema.fields else None
    return (json.loads(note) if note and "path" not in options else {}) | dict(options)
