"""What a task of a table-wide job hands back: the infos it made, the runs it put, and what it could not do.

Statistics and filters never travel to the driver: each task puts runs of its own share of the files.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.format.bloom_record import encode_bloom_filters
from needlefish.format.column_stats_record import encode_column_stats
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import ChunksetEntries
from needlefish.model.log import RunRef
from needlefish.runtime import Runtime
from needlefish.store import Store
from needlefish.table.point.runs import PointRuns

# An item of work for a task, under a key by which items are dealt out.
ITEM_SCHEMA = pa.schema([("key", pa.string()), ("item", pa.binary())])
SHARE_SCHEMA = pa.schema([("share", pa.binary())])
# The same for engines that want words.
SHARE_TEXT = "share binary"

# Entries waiting for their runs; beyond these a task puts them and starts the next.
_MOST_FILTER_BYTES = 64 * 1024 * 1024
_MOST_STATS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one task did. `lost` names files that it could not read, `refused` is why the whole job must not go on."""

    infos: tuple[ChunksetInfo, ...] = ()
    runs: tuple[RunRef, ...] = ()
    lost: tuple[str, ...] = ()
    refused: str | None = None


def share_row(share: Share) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"share": msgspec.msgpack.encode(share)}], schema=SHARE_SCHEMA)


def joined(rows: pa.Table) -> Share:
    """All shares as one; raises the first refusal, in the order of their texts so that runs of a job agree."""
    shares = [msgspec.msgpack.decode(data, type=Share) for data in rows["share"].to_pylist()]
    refused = sorted(share.refused for share in shares if share.refused is not None)
    if refused:
        raise InvalidError(refused[0])
    return Share(
        infos=tuple(info for share in shares for info in share.infos),
        runs=tuple(run for share in shares for run in share.runs),
        lost=tuple(sorted(text for share in shares for text in share.lost)),
    )


class EntryRuns:
    """Puts the statistics, filters and index entries of one task as runs, a bounded number of bytes at a time."""

    def __init__(self, definition: TableDefinition, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._points = PointRuns(definition, {}, store, runtime)
        self._runtime = runtime
        self._waiting: list[ChunksetEntries] = []
        self._filter_bytes = self._stats = 0
        self._put: list[RunRef] = []

    def add(self, entry: ChunksetEntries) -> None:
        self._put += self._points.add(entry)
        self._waiting.append(replace(entry, point_entries=()))
        self._filter_bytes += sum(len(bloom.filter) for bloom in entry.bloom_filters)
        self._stats += len(entry.column_stats)
        if self._filter_bytes > _MOST_FILTER_BYTES or self._stats > _MOST_STATS:
            self._flush()

    def finish(self) -> tuple[RunRef, ...]:
        """The runs of all that was added."""
        self._flush()
        return (*self._put, *self._points.finish())

    def _flush(self) -> None:
        if self._stats:
            self._put.append(put_run(self._store, "column_stats", encode_column_stats(self._waiting), self._runtime))
        if self._filter_bytes:
            filters = encode_bloom_filters(self._waiting, self._runtime.clock.now_ms())
            self._put.append(put_run(self._store, "bloom_filters", filters, self._runtime))
        self._waiting, self._filter_bytes, self._stats = [], 0, 0


def item_rows(items: Iterable[tuple[str, object]]) -> pa.Table:
    """Work as rows that a frame can carry to tasks."""
    rows = [{"key": key, "item": msgspec.msgpack.encode(item)} for key, item in items]
    return pa.Table.from_pylist(rows, schema=ITEM_SCHEMA)
