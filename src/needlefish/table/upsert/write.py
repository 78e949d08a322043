"""The first task: rows sorted by partition and key in, chunksets of the last row of each key out, and the keys to delete."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.conform import conform_to
from needlefish.table.partition import PARTITION_COLUMN, computed_columns, partition_paths
from needlefish.table.tag import tag_fields
from needlefish.table.task import answered, hand_back, note_row
from needlefish.table.upsert.distinct import Distinct, conformed
from needlefish.table.upsert.key_file import KeyFile, KeyFiles
from needlefish.table.upsert.plan import DROPPED, ChangePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteNote:
    """What a task did besides writing chunksets."""

    duplicates: int = 0
    deletes: int = 0
    key_files: tuple[KeyFile, ...] = ()
    # Rows that wait for the columns that they lack.
    row_files: tuple[KeyFile, ...] = ()
    requests: int = 0


def note_of(data: bytes) -> WriteNote:
    return msgspec.msgpack.decode(data, type=WriteNote)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertTask:
    """A callable over batches sorted by partition, key, `order_by` and position."""

    plan: ChangePlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.within(open_store(self.plan.store), batches)

    def within(self, store: RetriedStore, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same in a store that is open already."""
        return answered(self._written(batches, store))

    def _written(self, batches: Iterable[pa.RecordBatch], store: RetriedStore) -> Iterator[pa.RecordBatch]:
        plan = self.plan
        distinct, before = Distinct(plan.definition), _Dropped()
        deletes = Deletes(plan, store)
        rows = deletes.without(distinct.of(conformed(before.counted(batches), plan.definition, deleted_by=plan.deleted_by)))
        write = WritePlan(definition=plan.definition, prev_max=plan.version, indexed_keys=plan.indexed_keys, owner=plan.owner)
        runtime = SYSTEM.owned(plan.owner)
        yield from hand_back(write_chunksets(rows, write, store, runtime), write, store, runtime)
        files = deletes.finish()
        note = WriteNote(
            duplicates=distinct.dropped + before.rows,
            deletes=sum(file.rows for file in files),
            key_files=files,
            requests=store.meter.snapshot().requests,
        )
        yield note_row(msgspec.msgpack.encode(note))


class _Dropped:
    """Counts rows that an earlier task has dropped for a later one of the same key."""

    def __init__(self) -> None:
        self.rows = 0

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if DROPPED in batch.schema.names:
                self.rows += pc.sum(batch[DROPPED]).as_py() or 0
            yield batch


class Deletes:
    """Takes deletes out of the stream and puts their keys."""

    def __init__(self, plan: ChangePlan, store: RetriedStore) -> None:
        self._plan = plan
        self._keys = KeyFiles(plan.work, PARTITION_COLUMN, store, SYSTEM)
        self._files: list[KeyFile] = []

    def without(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mark = self._plan.deleted_by
        for batch in batches:
            if mark is None:
                yield batch
                continue
            gone = batch[mark]
            self._files += self._keys.add(batch.filter(gone).select(self._names))
            yield batch.filter(pc.invert(gone)).drop_columns([mark])

    @property
    def _names(self) -> list[str]:
        return [PARTITION_COLUMN, *(field.name for field in key_columns(self._plan.definition, self._plan.order_field))]

    def finish(self) -> tuple[KeyFile, ...]:
        return (*self._files, *self._keys.finish())


def key_columns(definition: TableDefinition, order: Field | None) -> tuple[Field, ...]:
    """What comparing needs of a row."""
    return tuple(dict.fromkeys([*definition.key_fields, *([order] if order is not None else [])]))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysTask:
    """A callable over batches of the columns that decide where a key lives, sorted by partition and key: puts key files."""

    plan: ChangePlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.within(open_store(self.plan.store), batches)

    def within(self, store: RetriedStore, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same in a store that is open already."""
        return answered(self._put(batches, store))

    def _put(self, batches: Iterable[pa.RecordBatch], store: RetriedStore) -> Iterator[pa.RecordBatch]:
        distinct = Distinct(self.plan.definition)
        keys = KeyFiles(self.plan.work, PARTITION_COLUMN, store, SYSTEM)
        names = [PARTITION_COLUMN, *(field.name for field in self.plan.definition.key_fields)]
        files = [file for rows in distinct.of(self._routed(batches)) for file in keys.add(rows.select(names))]
        files += keys.finish()
        note = WriteNote(
            duplicates=distinct.dropped,
            deletes=sum(file.rows for file in files),
            key_files=tuple(files),
            requests=store.meter.snapshot().requests,
        )
        yield note_row(msgspec.msgpack.encode(note))

    def _routed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        definition = self.plan.definition
        columns = () if definition.properties.global_keys else computed_columns(definition)
        for batch in batches:
            rows = conform_to(tag_fields(definition), batch, definition)
            yield rows.append_column(PARTITION_COLUMN, partition_paths(rows, columns))
