"""Statistics of columns taken from the rows themselves, for files whose writers' own statistics are not to be relied on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from needlefish.format.key_order import encode_value, lower_bound, upper_bound
from needlefish.model.entries import ColumnStats
from needlefish.model.schema import Field, Schema
from needlefish.model.types import is_nested
from needlefish.table.parquet_places import column_places

# Bounds of long texts are rounded outwards: what tells files apart is in the first characters.
_MOST_BOUND_BYTES = 64

Bound = bytes | None


def primitive_fields(schema: Schema) -> tuple[Field, ...]:
    """The columns that have statistics."""
    return tuple(field for field in schema.fields if not is_nested(field.arrow_type))


def rounded_bounds(lowest: Bound, highest: Bound) -> tuple[Bound, Bound]:
    """Bounds as runs keep them."""
    if lowest is None or highest is None:
        return None, None
    return lower_bound(lowest, _MOST_BOUND_BYTES), upper_bound(highest, _MOST_BOUND_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What the values of a column really are; bounds are in key order, exact and without NaN."""

    rows: int = 0
    nulls: int = 0
    has_nan: bool = False
    lowest: Bound = None
    highest: Bound = None

    def plus(self, other: "Observed") -> "Observed":
        return Observed(
            rows=self.rows + other.rows,
            nulls=self.nulls + other.nulls,
            has_nan=self.has_nan or other.has_nan,
            lowest=min((bound for bound in (self.lowest, other.lowest) if bound is not None), default=None),
            highest=max((bound for bound in (self.highest, other.highest) if bound is not None), default=None),
        )


def observe(field: Field, column: pa.ChunkedArray) -> Observed:
    """Looks at every value of one column."""
    numbers, has_nan = column, False
    if pa.types.is_floating(field.arrow_type):
        is_nan = pc.is_nan(column)
        has_nan = bool(pc.any(is_nan).as_py())
        numbers = column.filter(pc.invert(is_nan)) if has_nan else column
    bounds = pc.min_max(numbers)
    lowest, highest = (
        None if bounds[end].as_py() is None else encode_value(bounds[end].as_py(), field.arrow_type) for end in ("min", "max")
    )
    return Observed(rows=len(column), nulls=column.null_count, has_nan=has_nan, lowest=lowest, highest=highest)


class RowStats:
    """Sees the rows of one chunkset, a granule at a time."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self.observed: dict[int, Observed] = {field.id: Observed() for field in fields}

    def add(self, rows: pa.Table) -> Mapping[int, Observed]:
        """What these rows alone showed."""
        seen = {field.id: observe(field, rows[field.name]) for field in self._fields}
        self.observed = {field_id: before.plus(seen[field_id]) for field_id, before in self.observed.items()}
        return seen

    def column_stats(self, metadata: pq.FileMetaData) -> tuple[ColumnStats, ...]:
        """The records of the columns; only how many bytes they take comes from the footer."""
        places = column_places(metadata.schema)
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return tuple(
            _stats(field, self.observed[field.id], [group.column(places[field.name]) for group in groups] if field.name in places else [])
            for field in self._fields
        )


def _stats(field: Field, seen: Observed, chunks: Iterable[pq.ColumnChunkMetaData]) -> ColumnStats:
    sizes = [(chunk.total_compressed_size, chunk.total_uncompressed_size) for chunk in chunks]
    lowest, highest = rounded_bounds(seen.lowest, seen.highest)
    return ColumnStats(
        field_id=field.id,
        min=lowest,
        max=highest,
        value_count=seen.rows,
        null_count=seen.nulls,
        has_nan=seen.has_nan,
        total_size=sum(size for size, _ in sizes),
        total_uncompressed_size=sum(size for _, size in sizes),
    )
