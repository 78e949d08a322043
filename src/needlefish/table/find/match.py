"""The last step: granules that may hold a wanted value are read, and rows are compared exactly.

Inside a candidate file its own footer decides: row-group statistics first, then the row groups' Bloom filters where more
than one row group is left, since a filter costs a request as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.filters.hash import hash_array
from needlefish.format.key_order import encode_value
from needlefish.index.parquet_bloom import chunks_of, read_filter
from needlefish.model.schema import Field
from needlefish.store import Store
from needlefish.table.chunkset_reader import OpenChunkset, open_chunkset
from needlefish.table.file_columns import FileColumns
from needlefish.table.find.exact import rows_of
from needlefish.table.find.fitting import fitting
from needlefish.table.find.ranges import Extent, stretch
from needlefish.table.find.search import Candidate
from needlefish.table.find.wanted import Wanted
from needlefish.table.skips import Hidden, visible_granules
from needlefish.table.snapshot import Snapshot

# The position of a row in its chunkset.
ROW = "_needlefish_row"

# A filter that is wrong once in a hundred times passes nearly always when it is asked for this many values.
_MOST_PROBED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What one candidate held: rows of the asked columns, with their positions in the file."""

    rows: pa.Table
    rows_read: int
    granules_read: int
    granules_pruned: int
    false_granules: int
    # Rows that have a wanted value but are hidden.
    rows_skipped: int


def match_rows(snapshot: Snapshot, candidate: Candidate, columns: Sequence[Field], hidden: Hidden | None) -> Match:
    """Reads what neither the candidate's own footer nor its hidden rows rule out."""
    granules: list[tuple[int, Wanted]] = []
    visible = visible_granules(candidate.info, hidden)
    if visible and not _is_younger(snapshot, candidate):
        chunkset = open_chunkset(snapshot.store, snapshot.state.definition, candidate.info, snapshot.footers)
        granules = _admitted(snapshot.store, chunkset, candidate, visible)
    fields = list(dict.fromkeys([*candidate.wanted.fields, *columns]))
    matching = [_exact(chunkset, number, wanted, fields, columns) for number, wanted in granules]
    parts = matching if hidden is None else [hidden.left(part, part[ROW]) for part in matching]
    return Match(
        rows=pa.concat_tables(parts) if parts else _positioned(columns).empty_table(),
        rows_read=sum(candidate.info.granules[number].rows for number, _ in granules),
        granules_read=len(granules),
        granules_pruned=len(candidate.info.granules) - len(granules),
        false_granules=sum(part.num_rows == 0 for part in parts),
        rows_skipped=sum(part.num_rows for part in matching) - sum(part.num_rows for part in parts),
    )


def _is_younger(snapshot: Snapshot, candidate: Candidate) -> bool:
    """Whether a wanted column was added after the file was written: it is null in every row, and null equals nothing."""
    columns = FileColumns(definition=snapshot.state.definition, info=candidate.info)
    return any(columns.stored(field) is None and columns.constant(field) is None for field in candidate.wanted.fields)


def _exact(chunkset: OpenChunkset, number: int, wanted: Wanted, fields: Sequence[Field], columns: Sequence[Field]) -> pa.Table:
    """The rows of a granule that are wanted, with `columns` and their positions; the others are never converted."""
    stored = chunkset.read_stored([number], fields)
    places = rows_of(wanted.arrays, [chunkset.columns.column(stored, field) for field in wanted.fields])
    start = sum(granule.rows for granule in chunkset.info.granules[:number])
    positions = pa.chunked_array([pc.add(places.cast(pa.int64()), start)], pa.int64())
    taken = stored.take(places)
    return pa.Table.from_arrays([positions, *(chunkset.columns.column(taken, field) for field in columns)], schema=_positioned(columns))


def _positioned(columns: Sequence[Field]) -> pa.Schema:
    return pa.schema([(ROW, pa.int64()), *(field.to_arrow() for field in columns)])


def _admitted(store: Store, chunkset: OpenChunkset, candidate: Candidate, visible: Sequence[int]) -> list[tuple[int, Wanted]]:
    """The granules to read, each with the values that its range leaves possible."""
    numbers = visible if candidate.granules is None else [number for number in candidate.granules if number in visible]
    parts = ((number, _in_range(chunkset, number, candidate.wanted)) for number in numbers)
    left = [(number, part) for number, part in parts if len(part)]
    # A point index has told granules apart better than their filters could. An adopted file's writer may have chosen
    # another physical type, under which values hash differently.
    if len(left) <= 1 or candidate.granules is not None or chunkset.info.adopted is not None:
        return left
    return [(number, part) for number, part in left if len(part) > _MOST_PROBED or _may_by_filter(store, chunkset, number, part)]


def _in_range(chunkset: OpenChunkset, number: int, wanted: Wanted) -> Wanted:
    """The values that the leading column's range in the granule leaves room for."""
    field = wanted.fields[0]
    stored = chunkset.columns.stored(field)
    if stored is None or stored.name not in chunkset.places or chunkset.columns.constant(field) is not None:
        return wanted
    group = chunkset.metadata.row_group(number)
    statistics = group.column(chunkset.places[stored.name]).statistics
    if statistics is None or not statistics.has_min_max or pa.types.is_floating(stored.arrow_type):
        return wanted
    extent = Extent(encode_value(statistics.min, stored.arrow_type), encode_value(statistics.max, stored.arrow_type))
    return wanted.part(*stretch(wanted.encoded, extent))


def _may_by_filter(store: Store, chunkset: OpenChunkset, number: int, wanted: Wanted) -> bool:
    """Whether the row group's own filter of the leading wanted column admits one of the values."""
    stored = chunkset.columns.stored(wanted.fields[0])
    if stored is None or pa.types.is_floating(stored.arrow_type) or stored.name not in chunkset.places:
        return True
    chunk = chunks_of(chunkset.metadata, chunkset.places[stored.name])[number]
    bloom = read_filter(store, chunkset.info.path, chunk)
    # Values that the file's narrower type cannot hold are null, and not there.
    return bloom is None or bool(bloom.check(hash_array(fitting(wanted.arrays[0], stored.arrow_type)).present()).any())
