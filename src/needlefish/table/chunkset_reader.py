"""Reading granules of a chunkset, as rows of the table's current schema."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from needlefish.errors import CorruptError, NeedlefishError
from needlefish.format.checksum import checksum
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.store import ByteRange, Store, StoreFile
from needlefish.table.file_columns import FileColumns
from needlefish.table.parquet_places import column_places

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChunkset:
    """A chunkset whose footer is in memory."""

    info: ChunksetInfo
    columns: FileColumns
    file: pq.ParquetFile

    @property
    def metadata(self) -> pq.FileMetaData:
        return self.file.metadata

    @property
    def places(self) -> Mapping[str, int]:
        """Where the Parquet columns are that stand for a column of ours."""
        return column_places(self.file.metadata.schema)

    def read(self, granules: Sequence[int], fields: Sequence[Field]) -> pa.Table:
        """All rows of some granules, with `fields` alone."""
        names = self.columns.names(fields)
        rows = guarded(self.info.path, lambda: self.file.read_row_groups(granules, columns=names, use_threads=False))
        # Without a single stored column pyarrow forgets how many rows there were.
        rows = rows if names else pa.table({"": pa.nulls(sum(self.info.granules[number].rows for number in granules))})
        return self.columns.show(rows, fields)


def open_chunkset(store: Store, definition: TableDefinition, info: ChunksetInfo) -> OpenChunkset:
    """The footer's place is known, so that opening costs one small read."""
    footer = store.get_range(info.path, ByteRange(info.bytes - info.footer_bytes, info.footer_bytes))
    if checksum(footer) != info.footer_checksum:
        raise CorruptError(f"{info.path}: the footer does not fit its checksum")
    return open_with_footer(store, definition, info, footer)


def open_with_footer(store: Store, definition: TableDefinition, info: ChunksetInfo, footer: bytes) -> OpenChunkset:
    """The same for a footer that is at hand, and believed."""
    return OpenChunkset(
        info=info,
        columns=FileColumns(definition=definition, info=info),
        file=guarded(info.path, lambda: _parquet_file(store, info, footer)),
    )


def _parquet_file(store: Store, info: ChunksetInfo, footer: bytes) -> pq.ParquetFile:
    metadata = pq.read_metadata(pa.BufferReader(footer))
    return pq.ParquetFile(
        StoreFile(store, info.path, size=info.bytes),
        metadata=metadata,
        pre_buffer=True,
        page_checksum_verification=True,
        # What Spark writes for an instant unless told otherwise; its nanoseconds are always whole microseconds.
        coerce_int96_timestamp_unit="us",
    )


def guarded(path: str, read: Callable[[], T]) -> T:
    """What pyarrow makes of damaged bytes, as ours; errors of the store pass through it unchanged."""
    try:
        return read()
    except NeedlefishError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{path}: cannot be read as Parquet: {error}") from error
