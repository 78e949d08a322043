"""A chunkset's columns under the table's current schema: matched by field id, widened, filled where the file has none."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field, Schema
from needlefish.table.partition import computed_columns


@dataclass(frozen=True, kw_only=True)
class FileColumns:
    """How one chunkset, written under an older schema perhaps, shows the columns of today."""

    definition: TableDefinition
    info: ChunksetInfo

    @property
    def schema(self) -> Schema:
        """The schema the file was written under."""
        return next(schema for schema in self.definition.schemas if schema.id == self.info.schema_id)

    def stored(self, field: Field) -> Field | None:
        """The field as the file has it; None if the column is younger than the file."""
        return self._stored.get(field.id)

    @cached_property
    def _stored(self) -> dict[int, Field]:
        return {field.id: field for field in self.schema.fields}

    def names(self, fields: Iterable[Field]) -> list[str]:
        """The columns to read from the file."""
        found = (self.stored(field) for field in fields if self.constant(field) is None)
        return list(dict.fromkeys(field.name for field in found if field is not None))

    def show(self, rows: pa.Table, fields: Sequence[Field]) -> pa.Table:
        """`fields` of today, from the file's columns in `rows`."""
        return pa.Table.from_arrays(
            [self.column(rows, field) for field in fields], schema=pa.schema([field.to_arrow() for field in fields])
        )

    def column(self, rows: pa.Table, field: Field) -> pa.ChunkedArray:
        """One of them."""
        stored = self.stored(field)
        constant = self.constant(field)
        if constant is not None:
            return pa.chunked_array([pa.repeat(constant, rows.num_rows)])
        if stored is None:
            return pa.chunked_array([pa.nulls(rows.num_rows, field.arrow_type)])
        found = rows[stored.name]
        return found if found.type == field.arrow_type else found.cast(field.arrow_type)

    def constant(self, field: Field) -> pa.Scalar | None:
        """The value of a column that an adopted file keeps in its path alone."""
        if field.id not in self.info.path_columns:
            return None
        computed = computed_columns(self.definition)
        at = next(n for n, found in enumerate(computed) if found.column.transform == "identity" and found.column.source == field.id)
        return pa.scalar(computed[at].parse(self.info.partition_values[at]), field.arrow_type)
