"""Where the keys of a change are read from: chunksets that it wrote, files of keys that it deletes, or rows that wait."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import msgspec
import numpy as np
import pyarrow as pa

from needlefish.model.chunkset import ChunksetInfo, PartitionPath
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.store import Store
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.find import Wanted, wanted_arrays
from needlefish.table.partition import PARTITION_COLUMN
from needlefish.table.tag.keys import MOST_ROWS, KeyChunk, sorted_by_key
from needlefish.table.upsert.key_file import KeyFile, read_keys
from needlefish.table.upsert.plan import DELETES, ORDER, OWN_FILE, OWN_PARTITION, OWN_ROW
from needlefish.table.upsert.write import key_columns

SOURCE_SCHEMA = pa.schema([("source", pa.binary())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One of the three. `staged` are rows that lack columns, which those that they replace still have."""

    written: ChunksetInfo | None = None
    deleted: KeyFile | None = None
    staged: KeyFile | None = None

    @property
    def partitions(self) -> tuple[str, ...]:
        return (self.written.partition,) if self.written is not None else () if self._file is None else self._file.partitions

    @property
    def rows(self) -> int:
        return self.written.rows if self.written is not None else 0 if self._file is None else self._file.rows

    @property
    def _file(self) -> KeyFile | None:
        return self.deleted or self.staged


def source_rows(sources: Iterable[Source]) -> pa.Table:
    """Sources as rows that a frame can carry to tasks."""
    return pa.Table.from_pylist([{"source": msgspec.msgpack.encode(source)} for source in sources], schema=SOURCE_SCHEMA)


def sources_of(rows: pa.RecordBatch) -> Iterator[Source]:
    return (msgspec.msgpack.decode(data, type=Source) for data in rows["source"].to_pylist())


def chunks_of_sources(store: Store, definition: TableDefinition, sources: Iterable[Source], order: Field | None) -> Iterator[KeyChunk]:
    """The keys of all sources in as few chunks as may be: each asks the index, and sends a parcel to every file it meets."""
    waiting: list[KeyChunk] = []
    rows = 0
    for chunk in (chunk for source in sources for chunk in chunks_of_source(store, definition, source, order)):
        if waiting and rows + chunk.rows.num_rows > MOST_ROWS:
            yield _joined(waiting, definition)
            waiting, rows = [], 0
        waiting.append(chunk)
        rows += chunk.rows.num_rows
    if waiting:
        yield _joined(waiting, definition)


def _joined(chunks: list[KeyChunk], definition: TableDefinition) -> KeyChunk:
    """One chunk of several, each partition's keys together and in order."""
    if len(chunks) == 1:
        return chunks[0]
    if any(chunk.by_partition is None for chunk in chunks):
        rows = sorted_by_key(pa.concat_tables([chunk.rows for chunk in chunks]).combine_chunks(), definition)
        return KeyChunk(rows=rows, wanted=_wanted(rows, definition), by_partition=None)
    pieces: dict[PartitionPath, list[pa.Table]] = {}
    for chunk in chunks:
        for partition, part in (chunk.by_partition or {}).items():
            pieces.setdefault(partition, []).append(chunk.rows.slice(int(part.places[0]), len(part)))
    sorted_pieces = [sorted_by_key(pa.concat_tables(some).combine_chunks(), definition) for some in pieces.values()]
    rows = pa.concat_tables(sorted_pieces).combine_chunks()
    wanted = _wanted(rows, definition)
    cuts = [0, *accumulate(piece.num_rows for piece in sorted_pieces)]
    parts = {partition: wanted.part(first, end) for partition, (first, end) in zip(pieces, pairwise(cuts), strict=True)}
    return KeyChunk(rows=rows, wanted=wanted, by_partition=parts)


def chunks_of_source(store: Store, definition: TableDefinition, source: Source, order: Field | None) -> Iterator[KeyChunk]:
    """The keys, a bounded number at a time, with what comparing them needs."""
    if source.written is not None:
        yield from _of_chunkset(store, definition, source.written, order)
    if source.deleted is not None:
        yield from _of_keys(store, definition, source.deleted, order)
    if source.staged is not None:
        yield from _of_staged(store, definition, source.staged, order)


def _of_chunkset(store: Store, definition: TableDefinition, info: ChunksetInfo, order: Field | None) -> Iterator[KeyChunk]:
    chunkset = open_chunkset(store, definition, info)
    first = 0
    for granules in _stretches(info):
        read = chunkset.read(granules, key_columns(definition, order)).combine_chunks()
        rows = _with_order(_keys(read, definition), read, order)
        rows = rows.append_column(DELETES, pa.repeat(False, rows.num_rows))
        if order is not None:
            rows = _with_own(rows, info, first)
        first += read.num_rows
        wanted = _wanted(rows, definition)
        yield KeyChunk(rows=rows, wanted=wanted, by_partition=None if definition.properties.global_keys else {info.partition: wanted})


def _stretches(info: ChunksetInfo) -> Iterator[list[int]]:
    taken: list[int] = []
    rows = 0
    for number, granule in enumerate(info.granules):
        if taken and rows + granule.rows > MOST_ROWS:
            yield taken
            taken, rows = [], 0
        taken.append(number)
        rows += granule.rows
    yield taken


def _of_keys(store: Store, definition: TableDefinition, file: KeyFile, order: Field | None) -> Iterator[KeyChunk]:
    read = read_keys(store, file).combine_chunks()
    rows = _with_order(_keys(read, definition), read, order).append_column(DELETES, pa.repeat(True, read.num_rows))
    if order is not None:
        nulls = [pa.nulls(rows.num_rows, kind) for kind in (pa.string(), pa.string(), pa.int64())]
        rows = _appended(rows, [OWN_PARTITION, OWN_FILE, OWN_ROW], nulls)
    yield _chunk(rows, read, definition)


def _of_staged(store: Store, definition: TableDefinition, file: KeyFile, order: Field | None) -> Iterator[KeyChunk]:
    """Each key says which row of the file it is."""
    read = read_keys(store, file).combine_chunks()
    own = [pa.repeat(pa.scalar(file.path, pa.string()), read.num_rows), pa.array(np.arange(read.num_rows))]
    yield _chunk(_appended(_with_order(_keys(read, definition), read, order), [OWN_FILE, OWN_ROW], own), read, definition)


def _chunk(rows: pa.Table, read: pa.Table, definition: TableDefinition) -> KeyChunk:
    """Of keys that lie in a file by partition and key."""
    if definition.properties.global_keys:
        # They are looked for in all partitions at once, so that their own must not come first.
        rows = sorted_by_key(rows, definition)
        return KeyChunk(rows=rows, wanted=_wanted(rows, definition), by_partition=None)
    wanted = _wanted(rows, definition)
    paths = read[PARTITION_COLUMN].combine_chunks().dictionary_encode()
    numbers = paths.indices.to_numpy()
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    parts = {PartitionPath(paths.dictionary[numbers[first]].as_py()): wanted.part(first, end) for first, end in pairwise(cuts)}
    return KeyChunk(rows=rows, wanted=wanted, by_partition=parts)


def _keys(rows: pa.Table, definition: TableDefinition) -> pa.Table:
    return rows.select([field.name for field in definition.key_fields])


def _with_order(keys: pa.Table, rows: pa.Table, order: Field | None) -> pa.Table:
    return keys if order is None else keys.append_column(ORDER, rows[order.name])


def _with_own(rows: pa.Table, info: ChunksetInfo, first: int) -> pa.Table:
    positions = pa.array(np.arange(first, first + rows.num_rows))
    texts = [pa.repeat(pa.scalar(text, pa.string()), rows.num_rows) for text in (info.partition, info.file_name)]
    return _appended(rows, [OWN_PARTITION, OWN_FILE, OWN_ROW], [*texts, positions])


def _appended(rows: pa.Table, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Table:
    for name, column in zip(names, columns, strict=True):
        rows = rows.append_column(name, column)
    return rows


def _wanted(rows: pa.Table, definition: TableDefinition) -> Wanted:
    return wanted_arrays(definition, [rows[field.name].combine_chunks() for field in definition.key_fields])
