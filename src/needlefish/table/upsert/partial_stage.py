"""Partial rows, the first task: rows that lack columns are put aside, sorted and with distinct keys.

The frame is asked once. Whatever follows, and however often others commit meanwhile, starts from these files.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from needlefish.model.schema import Field
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store
from needlefish.table.conform import conform_to
from needlefish.table.partition import PARTITION_COLUMN, computed_columns, partition_paths
from needlefish.table.task import answered, note_row
from needlefish.table.upsert.distinct import Distinct
from needlefish.table.upsert.key_file import KeyFile, KeyFiles
from needlefish.table.upsert.plan import ChangePlan
from needlefish.table.upsert.write import Deletes, WriteNote

# Of one file. A later task holds such a file and all columns that its rows lack.
_MOST_ROWS = 200_000
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTask:
    """A callable over batches sorted by partition and key, by key alone where keys are global, then `order_by` and position.

    `present` are the ids of the table's columns that the rows have.
    """

    plan: ChangePlan
    present: tuple[int, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.within(open_store(self.plan.store), batches)

    def within(self, store: RetriedStore, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same in a store that is open already."""
        return answered(self._put(batches, store))

    def _put(self, batches: Iterable[pa.RecordBatch], store: RetriedStore) -> Iterator[pa.RecordBatch]:
        distinct, deletes = Distinct(self.plan.definition), Deletes(self.plan, store)
        files = tuple(_staged(deletes.without(distinct.of(self._routed(batches))), self.plan.work, store))
        gone = deletes.finish()
        note = WriteNote(
            duplicates=distinct.dropped,
            deletes=sum(file.rows for file in gone),
            key_files=gone,
            row_files=files,
            requests=store.meter.snapshot().requests,
        )
        yield note_row(msgspec.msgpack.encode(note))

    def _routed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of a global key may lack what decides their partition, which only the whole row says then."""
        definition, mark = self.plan.definition, self.plan.deleted_by
        columns = () if definition.properties.global_keys else computed_columns(definition)
        for batch in batches:
            rows = conform_to(self._fields, batch, definition)
            rows = rows.append_column(PARTITION_COLUMN, partition_paths(rows, columns))
            yield rows if mark is None else rows.append_column(mark, pc.fill_null(batch[mark], False))

    @property
    def _fields(self) -> tuple[Field, ...]:
        return tuple(field for field in self.plan.definition.schema.fields if field.id in self.present)


def _staged(batches: Iterable[pa.RecordBatch], folder: str, store: RetriedStore) -> Iterator[KeyFile]:
    files = KeyFiles(folder, PARTITION_COLUMN, store, SYSTEM)
    rows = size = 0
    for batch in batches:
        yield from files.add(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _MOST_ROWS or size >= _MOST_BYTES:
            yield from files.finish()
            rows = size = 0
    yield from files.finish()
