"""What a Parquet footer says about the columns of one granule."""

import pyarrow as pa
import pyarrow.parquet as pq

from needlefish.model.schema import Field
from needlefish.table.chunkset_reader import OpenChunkset
from needlefish.table.predicate.evidence import Extent
from needlefish.table.predicate.tree import IsNull, Leaf


class GranuleEvidence:
    """Minimum, maximum and null count where the writer left them; otherwise anything is possible."""

    def __init__(self, chunkset: OpenChunkset, number: int) -> None:
        self._columns = chunkset.columns
        self._places = chunkset.places
        self._group = chunkset.metadata.row_group(number)

    def may(self, leaf: Leaf) -> bool:
        if self._columns.constant(leaf.field) is not None:
            return True
        stored = self._columns.stored(leaf.field)
        if stored is None:
            # The column is younger than the file: all its values are null here.
            return isinstance(leaf, IsNull) and not leaf.negated
        return self._may_by_statistics(leaf, stored)

    def _may_by_statistics(self, leaf: Leaf, stored: Field) -> bool:
        place = self._places.get(stored.name)
        statistics = None if place is None else self._group.column(place).statistics
        if statistics is None:
            return True
        if statistics.has_null_count and not self._may_by_nulls(leaf, statistics.null_count):
            return False
        return not statistics.has_min_max or _extent(statistics, stored).may(leaf)

    def _may_by_nulls(self, leaf: Leaf, nulls: int) -> bool:
        if isinstance(leaf, IsNull) and not leaf.negated:
            return bool(nulls)
        # Whatever else is asked, a column of nulls cannot say yes.
        return bool(nulls < self._group.num_rows)


def _extent(statistics: pq.Statistics, field: Field) -> Extent:
    return Extent(lowest=statistics.min, highest=statistics.max, unordered=pa.types.is_floating(field.arrow_type))
