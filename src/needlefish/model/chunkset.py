"""Chunksets: one immutable Parquet data file each, and what the table knows of it without opening it."""

from dataclasses import dataclass
from typing import Literal, NewType

import msgspec

ChunksetId = NewType("ChunksetId", str)
PartitionPath = NewType("PartitionPath", str)
# A row key in key order; the name keeps it apart from the field `bytes` below.
OrderedKey = bytes

# A table without partitions keeps all rows in one partition of this name, as Hudi's metadata keys have it.
UNPARTITIONED = PartitionPath(".")

DATA_PREFIX = "data/"

# Do not rename: these are in `files` runs and in data files. Columns one after the other, or their bits interleaved.
Curve = Literal["linear", "zorder"]


class Granule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row group: how many rows it has and where its bytes are.

    Not a dataclass: a find makes all those of a file, and a frozen one takes nine times as long to make.
    """

    rows: int
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksetInfo:
    """What a commit records of a chunkset.

    `first_key` and `last_key` are in key order (`format.key_order`), so that they compare as bytes. The footer has a
    checksum here since Parquet has none for it, and a flipped bit there can end the process that parses it.
    """

    id: ChunksetId
    partition: PartitionPath
    partition_values: tuple[str | None, ...]
    rows: int
    bytes: int
    footer_bytes: int
    footer_checksum: str
    first_key: OrderedKey
    last_key: OrderedKey
    prev_max: int
    schema_id: int
    granules: tuple[Granule, ...]
    # Where an adopted file lies below the table; absent means the place that `chunkset_path` gives.
    adopted: str | None = None
    # Columns that an adopted file keeps in its path alone, by field id; their values are the partition's.
    path_columns: tuple[int, ...] = ()
    # The columns that rows were clustered by, as field ids; without any they are sorted by row key.
    order: tuple[int, ...] = ()
    curve: Curve = "linear"

    @property
    def is_sorted(self) -> bool:
        """Whether rows lie in the order of their keys: those of adopted and of clustered files need not."""
        return self.adopted is None and not self.order

    @property
    def file_name(self) -> str:
        """What metadata keys hash: unique inside a partition, so an adopted file's whole path."""
        return self.adopted or f"{self.id}.parquet"

    @property
    def path(self) -> str:
        return self.adopted or chunkset_path(self.partition, self.id)


def chunkset_path(partition: PartitionPath, chunkset: ChunksetId) -> str:
    """Where a chunkset lies below the table."""
    folder = "" if partition == UNPARTITIONED else f"{partition}/"
    return f"{DATA_PREFIX}{folder}{chunkset}.parquet"
