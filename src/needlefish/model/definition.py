"""What a table is, apart from its rows: columns, key, partitions, properties."""

from dataclasses import dataclass, field
from typing import Literal

from needlefish.model.point_index import PointIndexDefinition
from needlefish.model.schema import Field, Schema

# Do not rename: these are in every log.
Transform = Literal["identity", "constant", "get_or_else", "round", "time_slice", "year", "month", "day", "hour", "prefix", "bucket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumn:
    """One part of the partition key: a transform of a source column.

    `source` is a field id, absent for a constant. `argument` is what the transform needs: the constant or default
    as text, the step of `round` as text, the slice in microseconds, the prefix's length, the number of buckets.
    """

    name: str
    transform: Transform
    source: int | None = None
    argument: str | int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """Knobs that travel with the table. Absent means the default here."""

    # Granules decide what a find reads: 4,096 rows of a few columns take well below a millisecond to decode. Fewer still would
    # make footers long, which every find in a large file reads once.
    granule_rows: int = 4_096
    chunkset_rows: int = 1_000_000
    chunkset_bytes: int = 128 * 1024 * 1024
    compression: str = "zstd"
    # Filters in the footers tell granules of one file apart; those of whole files must also hold against thousands of files.
    granule_bloom_probability: float = 0.01
    file_bloom_probability: float = 0.00001
    checkpoint_interval: int = 32
    # A row key exists once in the whole table rather than once in its partition.
    global_keys: bool = False
    # Whoever works on the table shows every so often that it is alive, and is taken for dead after so many misses.
    heartbeat_seconds: float = 60.0
    heartbeats_missed: int = 2
    # Seconds that a plan which nobody executes is left alone.
    table_service_rollback_delay: float = 3_600.0
    # A version stays readable while it is one of the last so many that changed the table, or younger than so many seconds.
    retained_versions: int = 10
    retained_seconds: float = 604_800.0
    # Seconds that a reader may go on with a version after another has taken its place.
    grace_seconds: float = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDefinition:
    """The table as its newest definition has it."""

    table_id: str
    schemas: tuple[Schema, ...]
    key: tuple[int, ...]
    partition_by: tuple[PartitionColumn, ...] = ()
    # Columns besides the key whose values have Bloom filters, by field id.
    bloom_columns: tuple[int, ...] = ()
    point_indexes: tuple[PointIndexDefinition, ...] = ()
    properties: Properties = field(default_factory=Properties)

    @property
    def schema(self) -> Schema:
        return self.schemas[-1]

    @property
    def key_fields(self) -> tuple[Field, ...]:
        return tuple(self.schema.field_by_id(field_id) for field_id in self.key)
