"""What the metadata runs know of a chunkset besides its info: statistics of its columns and filters of its values."""

from dataclasses import dataclass
from typing import Literal

from needlefish.model.chunkset import ChunksetInfo, OrderedKey

# Do not rename: this is in every bloom_filters run.
BloomType = Literal["SPLIT_BLOCK"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """One column of one chunkset.

    `min` and `max` are in key order and may be rounded outwards. Absent ones mean that nothing is known, unless every
    value is null. NaN is outside the bounds; `has_nan` says whether there is any.
    """

    field_id: int
    min: OrderedKey | None
    max: OrderedKey | None
    value_count: int
    null_count: int
    has_nan: bool
    total_size: int
    total_uncompressed_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomEntry:
    """A filter over one chunkset: of its row keys, or of a declared column."""

    # None is the row key.
    field_id: int | None
    type: BloomType
    filter: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PointEntry:
    """What one point index has of one chunkset: the hashes of every granule, as little-endian u64, nulls left out."""

    index: str
    hashes: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksetEntries:
    """All that is recorded of a chunkset."""

    info: ChunksetInfo
    column_stats: tuple[ColumnStats, ...]
    bloom_filters: tuple[BloomEntry, ...]
    point_entries: tuple[PointEntry, ...] = ()
