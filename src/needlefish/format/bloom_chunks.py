"""Where the Bloom filter of each column chunk lies, read from the row groups of a Parquet footer."""

from dataclasses import dataclass, field

from needlefish.format.encryption_metadata import ColumnCrypto, read_column_crypto
from needlefish.format.thrift import I16, I32, I64, STRUCT, CompactReader


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkFilter:
    """The filter of one column chunk. `offset` is None when it has none, `length` when its writer did not say.

    Row groups count in file order; `ordinal` is the number that encryption binds modules to.
    """

    row_group: int
    ordinal: int
    column: int
    rows: int
    offset: int | None = None
    length: int | None = None
    # Encrypted chunks only: the key, or `locked` when the caller does not have it.
    key: bytes | None = field(default=None, repr=False)
    locked: bool = False


@dataclass(slots=True)
class StoredChunk:
    """A ColumnChunk as the footer states it, before any key was tried."""

    offset: int | None = None
    length: int | None = None
    crypto: ColumnCrypto | None = None
    sealed_metadata: bytes | None = None


@dataclass(slots=True)
class StoredRowGroup:
    """`index` is its place in the file; the stated `ordinal` is the same unless a writer left it out or miscounts."""

    index: int
    ordinal: int
    rows: int = 0
    chunks: list[StoredChunk] = field(default_factory=list)


def read_row_groups(reader: CompactReader, kind: int) -> list[StoredRowGroup]:
    """The list of RowGroups in a FileMetaData."""
    return [_read_row_group(reader, item, index) for index, item in enumerate(reader.items(kind, STRUCT))]


def _read_row_group(reader: CompactReader, kind: int, index: int) -> StoredRowGroup:
    group = StoredRowGroup(index=index, ordinal=index)
    for number, inner in reader.struct(kind):
        if number == 1:
            group.chunks = [_read_chunk(reader, item) for item in reader.items(inner, STRUCT)]
        elif number == 3:
            group.rows = reader.number(inner, I64)
        elif number == 7:
            group.ordinal = reader.number(inner, I16)
        else:
            reader.skip(inner)
    return group


def _read_chunk(reader: CompactReader, kind: int) -> StoredChunk:
    chunk = StoredChunk()
    for number, inner in reader.struct(kind):
        if number == 3:
            chunk.offset, chunk.length = read_location(reader, inner)
        elif number == 8:
            chunk.crypto = read_column_crypto(reader, inner)
        elif number == 9:
            chunk.sealed_metadata = reader.binary(inner)
        else:
            reader.skip(inner)
    return chunk


def read_location(reader: CompactReader, kind: int) -> tuple[int | None, int | None]:
    """Offset and length of the filter in a ColumnMetaData."""
    offset = length = None
    for number, inner in reader.struct(kind):
        if number == 14:
            offset = reader.number(inner, I64)
        elif number == 15:
            length = reader.number(inner, I32)
        else:
            reader.skip(inner)
    return offset, length
