"""Reading whole chunksets in tasks: their infos in, their rows out, as types that Spark has."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.store import open_store
from needlefish.table.skips import with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.visible_rows import visible_rows

INFO_SCHEMA = pa.schema([("info", pa.binary())])

# Spark has no unsigned integers.
_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}


def info_rows(infos: Iterable[ChunksetInfo]) -> pa.Table:
    """Chunksets as rows that a frame can carry to tasks."""
    return pa.Table.from_pylist([{"info": msgspec.msgpack.encode(info)} for info in infos], schema=INFO_SCHEMA)


def infos_of(rows: pa.RecordBatch) -> Iterator[ChunksetInfo]:
    return (msgspec.msgpack.decode(data, type=ChunksetInfo) for data in rows["info"].to_pylist())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """A callable over batches of INFO_SCHEMA; memory holds one granule, and the hidden rows of a group of files."""

    state: TableState
    store: StoreConfig

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        snapshot = Snapshot(store=open_store(self.store), state=self.state)
        schema = signed(self.state.definition.schema.to_arrow())
        infos = (info for rows in batches for info in infos_of(rows))
        for info, hidden in with_hidden(snapshot, infos):
            for rows in visible_rows(snapshot, info, hidden, self.state.definition.schema.fields):
                yield from rows.cast(schema).to_batches()


def signed(schema: pa.Schema) -> pa.Schema:
    """The schema as Spark can take it."""
    return pa.schema([pa.field(field.name, _SIGNED.get(field.type, field.type)) for field in schema])
