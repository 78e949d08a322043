"""Reading granules of a chunkset, as rows of the table's current schema."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from needlefish.errors import CorruptError, NeedlefishError
from needlefish.format.checksum import checksum
from needlefish.index.recent import Recent
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.store import ByteRange, SpanFile, Store, StoreFile
from needlefish.table.file_columns import FileColumns
from needlefish.table.parquet_places import column_places

T = TypeVar("T")

# What a parsed footer takes in memory, for each of its bytes in the file: measured with 7 columns and 3 row groups.
_PARSED_GROWTH = 10
# Columns this close to each other are read as one: so much costs less than a request, be it to a local disk.
_GAP_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """A parsed footer, with what is worked out from it once."""

    metadata: pq.FileMetaData
    # Where the Parquet columns are that stand for a column of ours.
    places: Mapping[str, int]
    # Of every Parquet column, in order.
    paths: tuple[str, ...]

    def spans(self, granules: Sequence[int], names: Sequence[str]) -> list[ByteRange]:
        """The bytes of some columns of some granules; neighbours become one span."""
        wanted = [number for number, path in enumerate(self.paths) if any(path == name or path.startswith(f"{name}.") for name in names)]
        return list(_joined(sorted(_span(group.column(n)) for group in map(self.metadata.row_group, granules) for n in wanted)))


# By path and checksum, since files never change: whatever version looks at one sees the same footer.
Footers = Recent[tuple[str, str], Footer]


def footer_key(info: ChunksetInfo) -> tuple[str, str]:
    return info.path, info.footer_checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChunkset:
    """A chunkset whose footer is in memory."""

    store: Store
    info: ChunksetInfo
    columns: FileColumns
    footer: Footer

    @property
    def metadata(self) -> pq.FileMetaData:
        return self.footer.metadata

    @property
    def places(self) -> Mapping[str, int]:
        return self.footer.places

    @property
    def file(self) -> pq.ParquetFile:
        """For what pyarrow alone knows of the file."""
        return guarded(self.info.path, lambda: _parquet_file(StoreFile(self.store, self.info.path, self.info.bytes), self.metadata))

    def read(self, granules: Sequence[int], fields: Sequence[Field]) -> pa.Table:
        """All rows of some granules, with `fields` alone."""
        return self.columns.show(self.read_stored(granules, fields), fields)

    def read_stored(self, granules: Sequence[int], fields: Sequence[Field]) -> pa.Table:
        """The same as the file has them: columns under the names and types of its own schema."""
        names = self.columns.names(fields)
        # Without a single stored column pyarrow forgets how many rows there were.
        if not names:
            return pa.table({"": pa.nulls(sum(self.info.granules[number].rows for number in granules))})
        return guarded(self.info.path, lambda: self._decoded(granules, names))

    def _decoded(self, granules: Sequence[int], names: list[str]) -> pa.Table:
        # What will be read is known, so that it is asked for in one call rather than through pyarrow's own threads.
        source = SpanFile(self.store, self.info.path, self.info.bytes, self.footer.spans(granules, names))
        return _parquet_file(source, self.metadata).read_row_groups(granules, columns=names, use_threads=False)


def open_chunkset(store: Store, definition: TableDefinition, info: ChunksetInfo, footers: Footers | None = None) -> OpenChunkset:
    """The footer's place is known, so that opening costs one small read; none if `footers` has it."""
    known = None if footers is None else footers.get(footer_key(info))
    if known is not None:
        return OpenChunkset(store=store, info=info, columns=FileColumns(definition=definition, info=info), footer=known)
    data = store.get_range(info.path, ByteRange(info.bytes - info.footer_bytes, info.footer_bytes))
    if checksum(data) != info.footer_checksum:
        raise CorruptError(f"{info.path}: the footer does not fit its checksum")
    opened = open_with_footer(store, definition, info, data)
    if footers is not None:
        footers.keep(footer_key(info), opened.footer, _PARSED_GROWTH * len(data))
    return opened


def open_with_footer(store: Store, definition: TableDefinition, info: ChunksetInfo, footer: bytes) -> OpenChunkset:
    """The same for a footer that is at hand, and believed."""
    columns = FileColumns(definition=definition, info=info)
    return OpenChunkset(store=store, info=info, columns=columns, footer=guarded(info.path, lambda: _parsed(footer)))


def _parsed(data: bytes) -> Footer:
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    schema = metadata.schema
    return Footer(metadata=metadata, places=column_places(schema), paths=tuple(schema.column(n).path for n in range(len(schema))))


def _parquet_file(source: StoreFile, metadata: pq.FileMetaData) -> pq.ParquetFile:
    return pq.ParquetFile(
        source,
        metadata=metadata,
        pre_buffer=False,
        page_checksum_verification=True,
        # What Spark writes for an instant unless told otherwise; its nanoseconds are always whole microseconds.
        coerce_int96_timestamp_unit="us",
    )


def _span(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Where a column of a row group begins and ends: its dictionary, if it has one, comes first."""
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset and column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    return start, start + column.total_compressed_size


def _joined(spans: Sequence[tuple[int, int]]) -> Iterator[ByteRange]:
    """Sorted spans, neighbours as one."""
    start = end = None
    for first, last in spans:
        if end is not None and first <= end + _GAP_BYTES:
            end = max(end, last)
            continue
        if start is not None and end is not None:
            yield ByteRange(start, end - start)
        start, end = first, last
    if start is not None and end is not None:
        yield ByteRange(start, end - start)


def guarded(path: str, read: Callable[[], T]) -> T:
    """What pyarrow makes of damaged bytes, as ours; errors of the store pass through it unchanged."""
    try:
        return read()
    except NeedlefishError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{path}: cannot be read as Parquet: {error}") from error
