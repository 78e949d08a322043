"""The last of rows with equal keys, from rows sorted by partition, key, `order_by` and position."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.model.definition import TableDefinition
from needlefish.table.conform import conform_to
from needlefish.table.partition import PARTITION_COLUMN, computed_columns, partition_paths
from needlefish.table.row_order import equal_next
from needlefish.table.upsert.plan import DROPPED


def conformed(batches: Iterable[pa.RecordBatch], definition: TableDefinition, *, deleted_by: str | None) -> Iterator[pa.RecordBatch]:
    """Rows under the table's schema, with their partition and, where rows may be deletes, a column that says so.

    A delete needs no more than its key and its partition: change feeds leave the other columns null, whatever the table says.
    Rows that are no deletes are looked at again when they are written.
    """
    columns = computed_columns(definition)
    fields = definition.schema.fields
    if deleted_by is not None:
        fields = tuple(replace(field, nullable=field.nullable or field.id not in definition.key) for field in fields)
    for batch in batches:
        rows = conform_to(fields, batch, definition)
        paths = batch[PARTITION_COLUMN] if PARTITION_COLUMN in batch.schema.names else partition_paths(rows, columns)
        rows = rows.append_column(PARTITION_COLUMN, paths)
        # A row that does not say that it is a delete is none.
        yield rows if deleted_by is None else rows.append_column(deleted_by, pc.fill_null(batch[deleted_by], False))


class Distinct:
    """Lets the last of equal keys pass, over batches of any size; counts those that it dropped."""

    def __init__(self, definition: TableDefinition, *, in_partition: bool = True) -> None:
        names = [field.name for field in definition.key_fields]
        self._names = [PARTITION_COLUMN, *names] if in_partition else names
        self.dropped = 0

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: pa.RecordBatch | None = None
        for batch in batches:
            rows = batch if held is None else pa.concat_batches([held, batch])
            if not rows.num_rows:
                continue
            last = rows.num_rows - 1
            held = rows.slice(last)
            kept = rows.slice(0, last).filter(pc.invert(equal_next(rows.select(self._names)))) if last else rows.slice(0, 0)
            self.dropped += last - kept.num_rows
            if kept.num_rows:
                yield kept
        if held is not None:
            yield held


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctTask:
    """A callable over batches sorted by key, `order_by` and position: the last row of every key, whatever its partition."""

    definition: TableDefinition

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        distinct = Distinct(self.definition, in_partition=False)
        reported = 0
        for rows in distinct.of(batches):
            dropped = [0] * (rows.num_rows - 1) + [distinct.dropped - reported]
            reported = distinct.dropped
            yield rows.append_column(DROPPED, pa.array(dropped, pa.int64()))
