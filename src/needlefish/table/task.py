"""What tasks hand back: one row for each chunkset, one for each run they put, or the refusal that stopped them.

Rows that do not belong into the table are an answer rather than a failure: an engine that repeats failed tasks would
find the same rows again. Filters and index entries are as large as a few bytes for each row, so that they never travel to
the driver: each task puts runs of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.format.bloom_record import encode_bloom_filters
from needlefish.index.build import put_run
from needlefish.model.entries import ChunksetEntries
from needlefish.model.log import RunRef
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store, open_store
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.point.runs import PointRuns

T = TypeVar("T")

RESULT_SCHEMA = pa.schema([("entries", pa.binary()), ("run", pa.binary()), ("note", pa.binary()), ("refused", pa.string())])
# The same for engines that want words.
RESULT_TEXT = "entries binary, run binary, note binary, refused string"

# Filters waiting for their run; beyond this a task puts one and starts the next.
_MOST_FILTER_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the tasks of one job made."""

    entries: tuple[ChunksetEntries, ...]
    # Of filters and point indexes.
    runs: tuple[RunRef, ...]
    # What tasks say besides, which only those who sent them understand.
    notes: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """A callable over Arrow batches that a process anywhere can run: it carries all it needs."""

    plan: WritePlan
    store: StoreConfig

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store, runtime = open_store(self.store), SYSTEM.owned(self.plan.owner)
        yield from answered(hand_back(write_chunksets(batches, self.plan, store, runtime), self.plan, store, runtime))


def hand_back(entries: Iterable[ChunksetEntries], plan: WritePlan, store: Store, runtime: Runtime) -> Iterator[pa.RecordBatch]:
    """The result rows of `entries`, with their filters and index entries put as runs."""
    points = PointRuns(plan.definition, plan.indexed_keys, store, runtime)
    waiting: list[ChunksetEntries] = []
    waiting_bytes = 0
    for entry in entries:
        yield _row(entries=msgspec.msgpack.encode(replace(entry, bloom_filters=(), point_entries=())))
        yield from map(_run_row, points.add(entry))
        waiting.append(replace(entry, point_entries=()))
        waiting_bytes += sum(len(bloom.filter) for bloom in entry.bloom_filters)
        if waiting_bytes > _MOST_FILTER_BYTES:
            yield _filters_row(waiting, store, runtime)
            waiting, waiting_bytes = [], 0
    if waiting_bytes:
        yield _filters_row(waiting, store, runtime)
    yield from map(_run_row, points.finish())


def _filters_row(entries: list[ChunksetEntries], store: Store, runtime: Runtime) -> pa.RecordBatch:
    records = encode_bloom_filters(entries, runtime.clock.now_ms())
    return _run_row(put_run(store, "bloom_filters", records, runtime))


def _run_row(run: RunRef) -> pa.RecordBatch:
    return _row(run=msgspec.msgpack.encode(run))


def note_row(note: bytes) -> pa.RecordBatch:
    return _row(note=note)


def answered(results: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The results of a task, or those until it refused a row and the refusal."""
    try:
        yield from results
    except InvalidError as error:
        yield _row(refused=str(error))


def _row(**columns: bytes | str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([columns], schema=RESULT_SCHEMA)


def collect(results: pa.Table) -> Written:
    """All that the tasks made; raises the first refusal, in the order of their texts so that runs of a job agree."""
    refused = sorted(text for text in results["refused"].to_pylist() if text is not None)
    if refused:
        raise InvalidError(refused[0])
    notes = tuple(note for note in results["note"].to_pylist() if note is not None)
    return Written(entries=_decoded(results["entries"], ChunksetEntries), runs=_decoded(results["run"], RunRef), notes=notes)


def _decoded(column: pa.ChunkedArray, kind: type[T]) -> tuple[T, ...]:
    return tuple(msgspec.msgpack.decode(data, type=kind) for data in column.to_pylist() if data is not None)
