"""A table as one of its files knows it: under the schema that the file was written with, which hashes and bounds follow."""

from dataclasses import replace

from needlefish.errors import CorruptError
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition


def as_written(definition: TableDefinition, info: ChunksetInfo) -> TableDefinition:
    """The definition whose only schema is the file's. What was declared for columns that came later is no part of it."""
    schema = next((found for found in definition.schemas if found.id == info.schema_id), None)
    known = set() if schema is None else {field.id for field in schema.fields}
    if schema is None or not known.issuperset(definition.key):
        raise CorruptError(f"{info.path}: written under schema {info.schema_id}, which the table does not have")
    return replace(
        definition,
        schemas=(schema,),
        bloom_columns=tuple(found for found in definition.bloom_columns if found in known),
        point_indexes=tuple(index for index in definition.point_indexes if known.issuperset(index.fields)),
    )
