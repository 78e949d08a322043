"""All rows of a chunkset against everything that anybody may conclude about them without reading them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.filters.hash import hash_array
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.key_order import encode_value
from needlefish.index.parquet_bloom import chunks_of, read_filter
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import ColumnStats
from needlefish.model.schema import Field
from needlefish.store import Store
from needlefish.table.chunkset_entries import FilterCollector, HashedGranule, PointCollector
from needlefish.table.chunkset_reader import OpenChunkset
from needlefish.table.key_bounds import KeyBounds
from needlefish.table.key_repeats import KeyRepeats
from needlefish.table.partition import computed_columns, partition_paths
from needlefish.table.row_order import above_next, equal_next
from needlefish.table.row_stats import Observed, RowStats, primitive_fields
from needlefish.table.verify.entries import FileEntries
from needlefish.table.verify.points_check import PointsCheck
from needlefish.table.verify.report import DAMAGE, Findings, said

_LOST = "restore the file from a copy, or write its rows anew"
_REBUILD_FILES = "rebuild 'files'"
_REBUILD_STATS = "rebuild 'column_stats'"
_REBUILD_FILTERS = "rebuild 'bloom_filters'"


@dataclass(kw_only=True)
class RowsCheck:
    """One pass over the rows under the file's own schema, a granule at a time."""

    store: Store
    chunkset: OpenChunkset
    written: TableDefinition
    entries: FileEntries
    found: Findings
    points: PointsCheck | None = None
    _topics: set[str] = field(default_factory=set)

    def run(self) -> None:
        keys = self.written.key_fields
        self._stats = RowStats(primitive_fields(self.written.schema))
        self._filters = FilterCollector(self.written)
        self._indexed = PointCollector(self.written)
        self._bounds = KeyBounds(keys, is_sorted=False)
        # Sorted rows show a repeated key as a neighbour.
        self._repeats = None if self.entries.info.is_sorted else KeyRepeats(keys)
        self._last: pa.RecordBatch | None = None
        for number in range(self.chunkset.metadata.num_row_groups):
            self._granule(number, self.chunkset.read([number], self.written.schema.fields))
        self._check_keys()
        self._check_stats()
        self._check_filters()
        if self.points is not None:
            self.points.check(self.entries, self._indexed.point_entries(), self.found)

    def _problem(self, topic: str, what: str, remedy: str) -> None:
        """Once for each topic: a file with a thousand granules would say the same thing a thousand times."""
        if topic not in self._topics:
            self._topics.add(topic)
            self.found.problem(self.entries.info.path, what, remedy)

    def _granule(self, number: int, rows: pa.Table) -> None:
        seen = self._stats.add(rows)
        self._check_footer_stats(number, seen)
        if rows.num_rows:
            self._check_partition(rows)
        if any(seen[key.id].nulls for key in self.written.key_fields):
            self._problem("null", f"granule {number} has a null in the key", _LOST)
            return
        self._bounds.add(rows)
        hashed = HashedGranule(rows)
        self._filters.add_hashed(hashed)
        self._indexed.add_hashed(hashed)
        if self._repeats is not None:
            self._repeats.add(rows)
        else:
            self._check_order(number, rows)
        if self.entries.info.adopted is None:
            self._check_footer_filters(number, rows)

    def _check_partition(self, rows: pa.Table) -> None:
        paths = partition_paths(rows.combine_chunks().to_batches()[0], computed_columns(self.written))
        strangers = [path for path in pc.unique(paths).to_pylist() if path != self.entries.info.partition]
        if strangers:
            self._problem("partition", f"has rows of partition {strangers[0]}, but lies in {self.entries.info.partition}", _LOST)

    def _check_order(self, number: int, rows: pa.Table) -> None:
        batch = rows.select([key.name for key in self.written.key_fields]).combine_chunks().to_batches()
        together = pa.Table.from_batches([*([self._last] if self._last is not None else []), *batch]).combine_chunks()
        self._last = together.slice(together.num_rows - 1).combine_chunks().to_batches()[0] if together.num_rows else None
        if together.num_rows < 2:
            return
        keys = together.to_batches()[0]
        if pc.any(above_next(keys)).as_py():
            self._problem("order", f"granule {number}: rows are not sorted by key", _LOST)
        at = pc.index(equal_next(keys), True).as_py()
        if at >= 0:
            self._problem("repeat", f"has the key {keys.slice(at, 1).to_pylist()[0]} more than once", _LOST)

    def _check_keys(self) -> None:
        info, first, last = self.entries.info, self._bounds.first, self._bounds.last
        if first is not None and first < info.first_key:
            self._problem("first", "has a key below its first key", _REBUILD_FILES)
        if last is not None and last > info.last_key:
            self._problem("last", "has a key above its last key", _REBUILD_FILES)
        if self._repeats is not None:
            groups = range(self.chunkset.metadata.num_row_groups)
            repeated = self._repeats.first(self.chunkset.read([number], self.written.key_fields) for number in groups)
            if repeated is not None:
                self._problem("repeat", f"has the key {repeated} more than once", _LOST)

    def _check_stats(self) -> None:
        for column in primitive_fields(self.written.schema):
            stats = self.entries.column_stats.get(column.id)
            for wrong in [] if stats is None else _contradictions(stats, self._stats.observed[column.id]):
                self._problem(f"stats {column.id}", f"the statistics of column {column.name!r} {wrong}", _REBUILD_STATS)

    def _check_filters(self) -> None:
        for field_id, hashes in self._filters.hashes().items():
            bitset = self.entries.filters.get(field_id)
            name = "the row key" if field_id is None else f"column {self.written.schema.field_by_id(field_id).name!r}"
            try:
                if bitset is not None and not SplitBlockFilter.from_bytes(bitset).check(hashes).all():
                    self._problem(f"filter {field_id}", f"the filter of {name} lacks a value that is there", _REBUILD_FILTERS)
            except DAMAGE as error:
                self._problem(f"filter {field_id}", f"the filter of {name} {said(error, '')}", _REBUILD_FILTERS)

    def _check_footer_stats(self, number: int, seen: Mapping[int, Observed]) -> None:
        """Scans and finds rule granules out by these."""
        group, places = self.chunkset.metadata.row_group(number), self.chunkset.places
        for column in primitive_fields(self.written.schema):
            place = None if column.id in self.entries.info.path_columns else places.get(column.name)
            stats = None if place is None else group.column(place).statistics
            if stats is None or not stats.has_min_max:
                continue
            lowest, highest = (encode_value(bound, column.arrow_type) for bound in (stats.min, stats.max))
            actual = seen[column.id]
            if (actual.lowest is not None and actual.lowest < lowest) or (actual.highest is not None and actual.highest > highest):
                self._problem(f"footer {column.id}", f"granule {number}: the footer's bounds of {column.name!r} leave values out", _LOST)

    def _check_footer_filters(self, number: int, rows: pa.Table) -> None:
        """A flipped bit in these hides a row from a find, and nothing but the rows can tell: they are made once more."""
        for column in _filtered(self.written):
            place = self.chunkset.places.get(column.name)
            if place is None:
                continue
            stored = read_filter(self.store, self.entries.info.path, chunks_of(self.chunkset.metadata, place)[number])
            if stored is not None and stored != _filter_of(rows[column.name], len(stored)):
                words = f"granule {number}: the file's own filter of {column.name!r} is not that of its values"
                self._problem(f"footer filter {column.id}", words, _LOST)


def _filter_of(values: pa.ChunkedArray, blocks: int) -> SplitBlockFilter:
    made = SplitBlockFilter.empty(blocks)
    made.insert(hash_array(values).present())
    return made


def _filtered(written: TableDefinition) -> Sequence[Field]:
    declared = (written.schema.field_by_id(field_id) for field_id in written.bloom_columns)
    return [column for column in dict.fromkeys((*written.key_fields, *declared)) if column.type != "boolean"]


def _contradictions(stats: ColumnStats, seen: Observed) -> list[str]:
    """What would let a reader conclude that a value is not there although it is."""
    wrong = []
    if (stats.value_count, stats.null_count) != (seen.rows, seen.nulls):
        wrong.append(f"count {stats.value_count} values and {stats.null_count} nulls of {seen.rows} and {seen.nulls}")
    if seen.has_nan and not stats.has_nan:
        wrong.append("do not know of a NaN")
    if stats.min is not None and seen.lowest is not None and seen.lowest < stats.min:
        wrong.append("begin above the least value")
    if stats.max is not None and seen.highest is not None and seen.highest > stats.max:
        wrong.append("end below the greatest value")
    return wrong
