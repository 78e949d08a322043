"""Reading granules of a chunkset, as rows of the table's current schema."""

from collections.abc import Callable, Mapping, Sequence
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
from needlefish.store import ByteRange, Store
from needlefish.table.file_columns import FileColumns
from needlefish.table.parquet_reader import ParquetReader, joined

T = TypeVar("T")

# What a parsed footer takes in memory, for each of its bytes in the file: measured with 7 columns and 3 row groups.
_PARSED_GROWTH = 10

# By path and checksum, since files never change: whatever version looks at one sees the same footer.
Footers = Recent[tuple[str, str], ParquetReader]


def footer_key(info: ChunksetInfo) -> tuple[str, str]:
    return info.path, info.footer_checksum


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChunkset:
    """A chunkset whose footer is in memory."""

    store: Store
    info: ChunksetInfo
    columns: FileColumns
    parquet: ParquetReader

    @property
    def metadata(self) -> pq.FileMetaData:
        return self.parquet.metadata

    @property
    def places(self) -> Mapping[str, int]:
        return self.parquet.places

    @property
    def file(self) -> pq.ParquetFile:
        """For what pyarrow alone knows of the file."""
        return guarded(self.info.path, lambda: self.parquet.file(self.store))

    def read(self, granules: Sequence[int], fields: Sequence[Field]) -> pa.Table:
        """All rows of some granules, with `fields` alone."""
        return self.columns.show(self.read_stored(granules, fields), fields)

    def read_stored(self, granules: Sequence[int], fields: Sequence[Field]) -> pa.Table:
        """The same as the file has them: columns under the names and types of its own schema."""
        names = self.columns.names(fields)
        # Without a single stored column pyarrow forgets how many rows there were.
        if not names:
            return pa.table({"": pa.nulls(sum(self.info.granules[number].rows for number in granules))})
        return guarded(self.info.path, lambda: self.parquet.read(self.store, granules, names, self._spans(granules, names)))

    def _spans(self, granules: Sequence[int], names: list[str]) -> list[ByteRange]:
        known = self.info.granules
        # A record may be wrong, which verify tells by reading all the same.
        if self.info.adopted is not None or len(names) < len(self.columns.schema.fields) or len(known) != self.metadata.num_row_groups:
            return self.parquet.spans(granules, names)
        # Files of ours have the columns of a granule side by side, so that whole granules need no look at each of them.
        places = (known[number] for number in granules)
        return joined((place.offset, place.offset + place.bytes) for place in places)


def open_chunkset(store: Store, definition: TableDefinition, info: ChunksetInfo, footers: Footers | None = None) -> OpenChunkset:
    """The footer's place is known, so that opening costs one small read; none if `footers` has it."""
    known = None if footers is None else footers.get(footer_key(info))
    if known is not None:
        return OpenChunkset(store=store, info=info, columns=FileColumns(definition=definition, info=info), parquet=known)
    data = store.get_range(info.path, ByteRange(info.bytes - info.footer_bytes, info.footer_bytes))
    if checksum(data) != info.footer_checksum:
        raise CorruptError(f"{info.path}: the footer does not fit its checksum")
    opened = open_with_footer(store, definition, info, data)
    if footers is not None:
        footers.keep(footer_key(info), opened.parquet, _PARSED_GROWTH * len(data))
    return opened


def open_with_footer(store: Store, definition: TableDefinition, info: ChunksetInfo, footer: bytes) -> OpenChunkset:
    """The same for a footer that is at hand, and believed."""
    columns = FileColumns(definition=definition, info=info)
    parquet = guarded(info.path, lambda: ParquetReader(store, info.path, info.bytes, footer))
    return OpenChunkset(store=store, info=info, columns=columns, parquet=parquet)


def guarded(path: str, read: Callable[[], T]) -> T:
    """What pyarrow makes of damaged bytes, as ours; errors of the store pass through it unchanged."""
    try:
        return read()
    except NeedlefishError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise CorruptError(f"{path}: cannot be read as Parquet: {error}") from error
