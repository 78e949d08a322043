"""The Bloom filters of any Parquet file on any store, plain or encrypted.

Opening costs a head and one range read of the footer (two when it is larger than `_TAIL_BYTES`). A filter costs one
range read where the footer states its length and two where it does not. Damage raises; it never answers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from needlefish.errors import CorruptError, InvalidError, UnsupportedError
from needlefish.filters.plain_type import Physical, PlainType
from needlefish.filters.probes import probe_hashes
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.bloom import MAX_HEADER_BYTES, decode_filter, measure_filter
from needlefish.format.bloom_chunks import ChunkFilter
from needlefish.format.bloom_encrypted import FilterSeal
from needlefish.format.bloom_footer import END_BYTES, BloomFooter, decode_footer, footer_length
from needlefish.format.bloom_schema import LeafColumn
from needlefish.format.encryption import FileIdentity
from needlefish.format.encryption_metadata import FooterKeys
from needlefish.runtime import in_parallel
from needlefish.store.base import ByteRange, Store

# Holds the footer of most files: some 70 row groups of 7 columns.
_TAIL_BYTES = 64 * 1024
_NO_KEYS = FooterKeys()


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetBlooms:
    """An opened file: its footer is in memory, filters are read when asked for."""

    store: Store = field(repr=False)
    path: str
    footer: BloomFooter = field(repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Leaf columns that have a filter (or may, under a key that is not here) in at least one row group."""
        used = {chunk.column for chunk in self.footer.chunks if chunk.offset is not None or chunk.locked}
        return tuple(leaf.path for number, leaf in enumerate(self.footer.leaves) if number in used)

    def leaf(self, column: str) -> LeafColumn:
        """The leaf at a dotted path."""
        return self.footer.leaves[self._number(column)]

    def chunks(self, column: str) -> list[ChunkFilter]:
        """One entry per row group, in file order."""
        number = self._number(column)
        return [chunk for chunk in self.footer.chunks if chunk.column == number]

    def filters(self, column: str) -> list[SplitBlockFilter | None]:
        """The filter of every row group, read in parallel; None where a row group has none."""
        return in_parallel(self.read, self.chunks(column))

    def read(self, chunk: ChunkFilter) -> SplitBlockFilter | None:
        """The filter of one chunk."""
        return read_filter(self.store, self.path, chunk, self.footer.file)

    def may_contain(self, column: str, value: object) -> list[bool]:
        """Per row group, False when the value is certainly not in it; a row group without a filter may hold anything."""
        hashes = self.hashes(column, value)
        return [bloom is None or any(map(bloom.may_contain, hashes)) for bloom in self.filters(column)]

    def hashes(self, column: str, value: object) -> tuple[int, ...]:
        """What to look for in a filter of this column: its file decides how the value would have been stored."""
        leaf = self.leaf(column)
        return probe_hashes(value, [_known_kind(leaf, self.path)], stored=stored_type(leaf, self.path))

    def _number(self, column: str) -> int:
        for number, leaf in enumerate(self.footer.leaves):
            if leaf.path == column:
                return number
        raise InvalidError(f"column {column!r} is not in {self.path}; it has {', '.join(leaf.path for leaf in self.footer.leaves)}")


def open_blooms(store: Store, path: str, keys: FooterKeys = _NO_KEYS) -> ParquetBlooms:
    """Reads the footer of a Parquet file."""
    size = store.head(path).size
    tail = _read(store, path, max(0, size - _TAIL_BYTES), min(size, _TAIL_BYTES))
    length, sealed = footer_length(tail, path)
    if length + END_BYTES > size:
        raise CorruptError(f"{path}: the footer claims {length} bytes in a file of {size}")
    if length + END_BYTES > len(tail):
        data = _read(store, path, size - END_BYTES - length, length)
    else:
        data = tail[len(tail) - END_BYTES - length : len(tail) - END_BYTES]
    return ParquetBlooms(store=store, path=path, footer=decode_footer(data, sealed=sealed, keys=keys, what=path))


def read_filter(store: Store, path: str, chunk: ChunkFilter, file: FileIdentity | None = None) -> SplitBlockFilter | None:
    """The filter that `chunk` locates, or None when it has none; `file` is the identity of an encrypted file."""
    what = f"{path}: filter of column {chunk.column} in row group {chunk.row_group}"
    if chunk.locked:
        raise InvalidError(f"{what} is encrypted under a key that was not given; pass keys that hold it")
    if chunk.offset is None:
        return None
    measure, decode = _codec(chunk, file)
    data = _read_filter_bytes(store, path, chunk, lambda front: measure(front, what), what)
    return SplitBlockFilter.from_bytes(decode(data, what))


def chunks_of(metadata: Any, column: int) -> list[ChunkFilter]:
    """The same from a footer that pyarrow has parsed already (a `pyarrow.parquet.FileMetaData`)."""
    return [_chunk_of(metadata.row_group(group), group, column) for group in range(metadata.num_row_groups)]


def _chunk_of(group: Any, number: int, column: int) -> ChunkFilter:
    chunk = group.column(column)
    return ChunkFilter(
        row_group=number,
        ordinal=number,
        column=column,
        rows=group.num_rows,
        offset=chunk.bloom_filter_offset,
        length=chunk.bloom_filter_length,
    )


def _codec(chunk: ChunkFilter, file: FileIdentity | None) -> tuple[Callable[[bytes, str], int], Callable[[bytes, str], memoryview]]:
    if chunk.key is None:
        return measure_filter, decode_filter
    assert file is not None, "a chunk has a key only in a file with an identity"
    seal = FilterSeal(key=chunk.key, file=file, row_group=chunk.ordinal, column=chunk.column)
    return seal.measure, seal.decode


def _read_filter_bytes(store: Store, path: str, chunk: ChunkFilter, measure: Callable[[bytes], int], what: str) -> bytes:
    start = chunk.offset
    if start is None or start < 0 or (chunk.length is not None and chunk.length <= 0):
        raise CorruptError(f"{what} lies at byte {start} with length {chunk.length}, which no file has")
    if chunk.length is not None:
        return _whole(_read(store, path, start, chunk.length), chunk.length, what)
    front = _read(store, path, start, MAX_HEADER_BYTES)
    total = measure(front)
    if total <= len(front):
        return front[:total]
    return _whole(front + _read(store, path, start + len(front), total - len(front)), total, what)


def _whole(data: bytes, length: int, what: str) -> bytes:
    if len(data) != length:
        raise CorruptError(f"{what} takes {length} bytes and the file ends after {len(data)} of them")
    return data


def _read(store: Store, path: str, start: int, length: int) -> bytes:
    return store.get_range(path, ByteRange(start, length))


def stored_type(leaf: LeafColumn, path: str) -> PlainType:
    """How the file stores the column's values."""
    if leaf.physical not in list(Physical):
        raise UnsupportedError(f"{path}: column {leaf.path!r} has physical type {leaf.physical}, which is not known here")
    physical = Physical(leaf.physical)
    if physical is Physical.FIXED_LEN_BYTE_ARRAY and (leaf.type_length is None or leaf.type_length < 0):
        raise CorruptError(f"{path}: column {leaf.path!r} has values of fixed length {leaf.type_length}")
    return PlainType.of(physical, leaf.type_length)


def _known_kind(leaf: LeafColumn, path: str) -> Any:
    if leaf.kind is None:
        raise UnsupportedError(f"{path}: column {leaf.path!r} has a type whose values cannot be looked up here")
    return leaf.kind
