"""The columns of changes: the table's own, what happened to the row, and in which version."""

import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition

CHANGE = "_change"
VERSION = "_version"

# What happened. Of an update the new row comes, and the one that it replaced where somebody asks for it.
INSERT = "insert"
UPDATE = "update"
DELETE = "delete"
UPDATE_BEFORE = "update_before"

ADDED = (pa.field(CHANGE, pa.string(), nullable=False), pa.field(VERSION, pa.int64(), nullable=False))


def change_schema(definition: TableDefinition) -> pa.Schema:
    """The columns of the newest version in the range, whatever the rows were written under."""
    for name in definition.schema.names:
        # Spark takes names without regard to case.
        if name.lower() in (CHANGE, VERSION):
            raise InvalidError(
                f"the table has a column {name!r}, which changes need for themselves; rename it: evolve(rename={{{name!r}: …}})"
            )
    return pa.schema([*definition.schema.to_arrow(), *ADDED])
