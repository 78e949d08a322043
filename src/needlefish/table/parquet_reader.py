"""A Parquet file whose footer is in memory: where its columns are, and rows of its granules.

pyarrow's reader is kept with the parsed footer, since making another takes a fourth of the time that a granule does.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from threading import Lock

import pyarrow as pa
import pyarrow.parquet as pq

from needlefish.store import ByteRange, SpanFile, Store, StoreFile
from needlefish.table.parquet_places import column_places

# Columns this close to each other are read as one: so much costs less than a request, be it to a local disk.
_GAP_BYTES = 8 * 1024

# pyarrow looks for the footer in so many bytes at a file's end; what is in front of it is not looked at.
_TAIL_BYTES = 64 * 1024


class ParquetReader:
    """Safe to share between threads and between finds: each read brings the store that pays for it."""

    def __init__(self, store: Store, path: str, size: int, footer: bytes) -> None:
        """`footer` is what the file ends in, its length and magic bytes with it."""
        self._path = path
        self._size = size
        self._source = SpanFile(store, path, size)
        tail = footer.rjust(min(size, _TAIL_BYTES), b"\0")
        self._source.hold([ByteRange(size - len(tail), len(tail))], [tail])
        self._file = _parquet_file(self._source)
        self._source.forget()
        self._one = Lock()
        self.metadata: pq.FileMetaData = self._file.metadata

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Where the Parquet columns are that stand for a column of ours."""
        return column_places(self.metadata.schema)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        """Of every Parquet column, in order."""
        schema = self.metadata.schema
        return tuple(schema.column(number).path for number in range(len(schema)))

    def spans(self, granules: Sequence[int], names: Sequence[str]) -> list[ByteRange]:
        """The bytes of some columns of some granules; neighbours become one span."""
        wanted = [number for number, path in enumerate(self._paths) if any(path == name or path.startswith(f"{name}.") for name in names)]
        return joined(_span(group.column(n)) for group in map(self.metadata.row_group, granules) for n in wanted)

    def read(self, store: Store, granules: Sequence[int], names: Sequence[str], spans: Sequence[ByteRange]) -> pa.Table:
        """All rows of some granules. What will be read is known as `spans`: it is asked for in one call, not column by column."""
        found = [store.get_range(self._path, spans[0])] if len(spans) == 1 else store.get_ranges(self._path, spans)
        if not self._one.acquire(blocking=False):
            # Another thread is at it.
            source = SpanFile(store, self._path, self._size)
            source.hold(spans, found)
            return _rows(_parquet_file(source, self.metadata), granules, names)
        try:
            self._source.hold(spans, found, store)
            return _rows(self._file, granules, names)
        finally:
            self._source.forget()
            self._one.release()

    def file(self, store: Store) -> pq.ParquetFile:
        """For what pyarrow alone knows of the file."""
        return _parquet_file(StoreFile(store, self._path, self._size), self.metadata)


def joined(spans: Iterator[tuple[int, int]]) -> list[ByteRange]:
    """From first to last bytes, those of neighbours as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1] + _GAP_BYTES:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return [ByteRange(start, end - start) for start, end in found]


def _rows(file: pq.ParquetFile, granules: Sequence[int], names: Sequence[str]) -> pa.Table:
    # Threads would take longer to start than to decode a granule; whoever reads many files has threads already.
    return file.read_row_groups(granules, columns=names, use_threads=False)


def _parquet_file(source: StoreFile, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
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
