"""Keys without rows: deletes on their way to where they are compared, as Arrow files below the table's work folder."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.errors import CorruptError
from needlefish.format.log_entry import ROOT
from needlefish.runtime import Runtime
from needlefish.store import Store

# Below the table; each upsert or delete has a folder of its own, which it removes at the end. A clean removes the rest.
WORK_PREFIX = f"{ROOT}work/"
# Rows of one file.
_MOST_ROWS = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFile:
    """Rows with `rows` distinct keys, sorted by partition and key."""

    path: str
    rows: int
    partitions: tuple[str, ...]


class KeyFiles:
    """Collects sorted rows and puts them, a bounded number at a time."""

    def __init__(self, folder: str, partition_column: str, store: Store, runtime: Runtime) -> None:
        self._folder = folder
        self._partition = partition_column
        self._store = store
        self._runtime = runtime
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0

    def add(self, rows: pa.RecordBatch) -> Iterator[KeyFile]:
        if not rows.num_rows:
            return
        self._waiting.append(rows)
        self._rows += rows.num_rows
        if self._rows >= _MOST_ROWS:
            yield from self.finish()

    def finish(self) -> Iterator[KeyFile]:
        """A crash after the put leaves a file that nobody names; a clean removes it."""
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting)
        path = f"{self._folder}/{self._runtime.new_id()}.arrow"
        self._store.put(path, _encoded(rows))
        partitions = tuple(sorted(pc.unique(rows[self._partition]).to_pylist()))
        self._waiting, self._rows = [], 0
        yield KeyFile(path=path, rows=rows.num_rows, partitions=partitions)


def _encoded(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def read_keys(store: Store, file: KeyFile) -> pa.Table:
    rows = pa.ipc.open_stream(pa.py_buffer(store.get(file.path))).read_all()
    if rows.num_rows != file.rows:
        raise CorruptError(f"{file.path}: {rows.num_rows} rows, but {file.rows} were written")
    return rows
