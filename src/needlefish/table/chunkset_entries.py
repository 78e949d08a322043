"""Statistics and filters of a chunkset, gathered while its granules pass by: nothing is read again.

Rebuilding and adopting take the same road, with granules read from a file instead of about to be written.
"""

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from needlefish.filters.hash import hash_key
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.key_order import encode_value
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import BloomEntry, ColumnStats, PointEntry
from needlefish.model.schema import Field
from needlefish.table.parquet_places import column_places
from needlefish.table.row_stats import primitive_fields, rounded_bounds


class EntriesCollector:
    """Sees every granule of one chunkset once."""

    def __init__(self, definition: TableDefinition) -> None:
        self._footer = FooterStats(definition)
        self._filters = FilterCollector(definition)
        self._points = PointCollector(definition)

    def add(self, granule: pa.Table) -> None:
        self._footer.add(granule)
        hashed = HashedGranule(granule)
        self._filters.add_hashed(hashed)
        self._points.add_hashed(hashed)

    def column_stats(self, metadata: pq.FileMetaData) -> tuple[ColumnStats, ...]:
        return self._footer.column_stats(metadata)

    def bloom_filters(self) -> tuple[BloomEntry, ...]:
        return self._filters.bloom_filters()

    def point_entries(self) -> tuple[PointEntry, ...]:
        return self._points.point_entries()


class HashedGranule:
    """The hashes of one granule, each combination of columns hashed once however many ask for it."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._known: dict[tuple[int, ...], NDArray[np.uint64]] = {}

    def of(self, fields: Sequence[Field]) -> NDArray[np.uint64]:
        """Without nulls, which are in no index."""
        ids = tuple(field.id for field in fields)
        if ids not in self._known:
            self._known[ids] = hash_key([self._rows[field.name] for field in fields]).present()
        return self._known[ids]


class PointCollector:
    """What the point indexes will have of one chunkset."""

    def __init__(self, definition: TableDefinition) -> None:
        self._columns = {
            index.name: tuple(definition.schema.field_by_id(field_id) for field_id in index.fields) for index in definition.point_indexes
        }
        self._hashes: dict[str, list[bytes]] = {name: [] for name in self._columns}

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns whose values are looked at."""
        return tuple(dict.fromkeys(field for fields in self._columns.values() for field in fields))

    def add(self, granule: pa.Table) -> None:
        self.add_hashed(HashedGranule(granule))

    def add_hashed(self, granule: HashedGranule) -> None:
        for name, fields in self._columns.items():
            self._hashes[name].append(granule.of(fields).tobytes())

    def point_entries(self) -> tuple[PointEntry, ...]:
        return tuple(PointEntry(index=name, hashes=tuple(hashes)) for name, hashes in self._hashes.items())


class FilterCollector:
    """The hashes of row keys and declared columns, and the filters they become."""

    def __init__(self, definition: TableDefinition) -> None:
        self._probability = definition.properties.file_bloom_probability
        # None stands for the row key.
        self._columns: dict[int | None, tuple[Field, ...]] = {
            None: definition.key_fields,
            **{field_id: (definition.schema.field_by_id(field_id),) for field_id in definition.bloom_columns},
        }
        self._hashes: dict[int | None, list[NDArray[np.uint64]]] = {field_id: [] for field_id in self._columns}

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns whose values are looked at."""
        return tuple(dict.fromkeys(field for fields in self._columns.values() for field in fields))

    def add(self, granule: pa.Table) -> None:
        self.add_hashed(HashedGranule(granule))

    def add_hashed(self, granule: HashedGranule) -> None:
        for field_id, fields in self._columns.items():
            self._hashes[field_id].append(granule.of(fields))

    def hashes(self) -> dict[int | None, NDArray[np.uint64]]:
        """The distinct hashes so far, by column."""
        return {field_id: np.unique(np.concatenate(seen)) if seen else np.empty(0, np.uint64) for field_id, seen in self._hashes.items()}

    def bloom_filters(self) -> tuple[BloomEntry, ...]:
        """One filter for the row key and one for each declared column, sized for the distinct values really there."""
        return tuple(_bloom(field_id, hashes, self._probability) for field_id, hashes in self.hashes().items())


def _bloom(field_id: int | None, hashes: NDArray[np.uint64], probability: float) -> BloomEntry:
    found = SplitBlockFilter.sized(len(hashes), probability)
    found.insert(hashes)
    return BloomEntry(field_id=field_id, type="SPLIT_BLOCK", filter=found.to_bytes())


class FooterStats:
    """Statistics that the Parquet writer has made anyway; only NaN, which it leaves out, is looked for in the rows."""

    def __init__(self, definition: TableDefinition) -> None:
        self._fields = primitive_fields(definition.schema)
        self._with_nan: set[int] = set()

    @property
    def fields(self) -> tuple[Field, ...]:
        """The columns whose values are looked at."""
        return tuple(field for field in self._fields if pa.types.is_floating(field.arrow_type))

    def add(self, granule: pa.Table) -> None:
        for field in self.fields:
            if field.id not in self._with_nan and pc.any(pc.is_nan(granule[field.name])).as_py():
                self._with_nan.add(field.id)

    def column_stats(self, metadata: pq.FileMetaData) -> tuple[ColumnStats, ...]:
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        places = column_places(metadata.schema)
        return tuple(
            _stats(field, [group.column(places[field.name]) for group in groups], self._with_nan)
            for field in self._fields
            if field.name in places
        )


def _stats(field: Field, chunks: Sequence[pq.ColumnChunkMetaData], with_nan: Collection[int]) -> ColumnStats:
    statistics = [chunk.statistics for chunk in chunks]
    nulls = sum(found.null_count for found in statistics if found is not None and found.has_null_count)
    lowest, highest = _bounds(field, chunks)
    return ColumnStats(
        field_id=field.id,
        min=lowest,
        max=highest,
        value_count=sum(chunk.num_values for chunk in chunks),
        null_count=nulls,
        has_nan=field.id in with_nan,
        total_size=sum(chunk.total_compressed_size for chunk in chunks),
        total_uncompressed_size=sum(chunk.total_uncompressed_size for chunk in chunks),
    )


def _bounds(field: Field, chunks: Sequence[pq.ColumnChunkMetaData]) -> tuple[bytes | None, bytes | None]:
    """The least and greatest value over all granules; nothing if one granule that has values says nothing."""
    lowest: list[bytes] = []
    highest: list[bytes] = []
    for chunk in chunks:
        found = chunk.statistics
        if found is not None and found.has_null_count and found.null_count == chunk.num_values:
            continue
        if found is None or not found.has_min_max:
            return None, None
        lowest.append(encode_value(found.min, field.arrow_type))
        highest.append(encode_value(found.max, field.arrow_type))
    return rounded_bounds(min(lowest), max(highest)) if lowest else (None, None)
