"""What a task does with the rows that it was given: sort them, keep or refuse repeated keys, write chunksets.

Its attempt is in the log before its first object is put: whichever task has rows first begins it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.model.definition import TableDefinition
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store, open_store
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.delivered.sorting import sort_rows
from needlefish.table.task import RESULT_SCHEMA, answered, hand_back
from needlefish.table.upsert.distinct import Distinct, conformed
from needlefish.table.upsert.plan import POSITION
from needlefish.timeline.detached import Detached, beating
from needlefish.timeline.heartbeat import Heartbeat


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryTask:
    """A callable over Arrow batches in any order. Its result says what it wrote, or why rows were refused; nothing is visible yet.

    With `keeps_last`, of equal keys the one with the greatest `order_by` counts, of equal ones the last; else they are refused.
    """

    definition: TableDefinition
    store: StoreConfig
    version: int
    indexed_keys: Mapping[str, int] = field(default_factory=dict)
    keeps_last: bool = False
    order_by: int | None = None
    # What all ids begin with; without it they are those of a writer that announced nothing.
    detached: Detached | None = None
    # Where the table has yet to be made there is no log to begin the attempt in, and nobody who could clean.
    has_log: bool = True

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> bytes:
        """The result as one message."""
        return self.within(open_store(self.store), batches)

    def within(self, store: Store, batches: Iterable[pa.RecordBatch], runtime: Runtime = SYSTEM) -> bytes:
        """The same in a store that is open already."""
        return _message(self._results(batches, store, runtime))

    def _results(self, batches: Iterable[pa.RecordBatch], store: Store, runtime: Runtime) -> Iterator[pa.RecordBatch]:
        rows = iter(batches)
        first = next((batch for batch in rows if batch.num_rows), None)
        if first is None:
            return
        with self._beating(store, runtime) as heartbeat:
            for result in answered(self._written(chain([first], rows), store, runtime)):
                if heartbeat is not None:
                    heartbeat.say("write")
                yield result

    def _beating(self, store: Store, runtime: Runtime) -> AbstractContextManager[Heartbeat | None]:
        if self.detached is None or not self.has_log:
            return nullcontext()
        return beating(store, self.detached, self.definition.properties, runtime)

    def _written(self, batches: Iterable[pa.RecordBatch], store: Store, runtime: Runtime) -> Iterator[pa.RecordBatch]:
        owner = "" if self.detached is None else self.detached.attempt
        owned = runtime.owned(owner)
        rows = self._sorted(conformed(batches, self.definition, deleted_by=None))
        plan = WritePlan(definition=self.definition, prev_max=self.version, indexed_keys=self.indexed_keys, owner=owner)
        yield from hand_back(write_chunksets(_without_position(rows), plan, store, owned), plan, store, owned)

    def _sorted(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        order = None if self.order_by is None else self.definition.schema.field_by_id(self.order_by)
        if not self.keeps_last:
            return sort_rows(rows, self.definition, None)
        if self.definition.properties.global_keys:
            # The last row of a key decides its partition, so that it must be known before rows go to their partitions.
            by_key = sort_rows(rows, self.definition, order, in_partition=False)
            return sort_rows(Distinct(self.definition, in_partition=False).of(by_key), self.definition, None)
        return Distinct(self.definition).of(sort_rows(rows, self.definition, order))


def _without_position(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (batch.drop_columns([POSITION]) for batch in batches)


def _message(results: Iterable[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, RESULT_SCHEMA) as writer:
        for batch in results:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def results_of(messages: Iterable[bytes]) -> pa.Table:
    """The results of all tasks, in the order of the tasks."""
    read = [pa.ipc.open_stream(pa.py_buffer(message)).read_all() for message in messages]
    return pa.concat_tables(read) if read else RESULT_SCHEMA.empty_table()
