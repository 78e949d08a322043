"""The last step: granules that may hold a wanted value are read, and rows are compared exactly.

Inside a candidate file its own footer decides: row-group statistics first, then the row groups' Bloom filters where more
than one row group is left, since a filter costs a request as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from needlefish.filters.hash import hash_array
from needlefish.format.key_order import encode_value
from needlefish.index.parquet_bloom import chunks_of, read_filter
from needlefish.model.chunkset import ChunksetInfo
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
# Granules are decoded and compared together up to so many rows: the calls for each would cost more than its rows do.
_ROWS_AT_ONCE = 65_536


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
    matching = [_exact(chunkset, numbers, wanted, columns) for numbers, wanted in _together(candidate, granules)]
    parts = matching if hidden is None else [hidden.left(part, part[ROW]) for part in matching]
    return Match(
        rows=pa.concat_tables(parts) if parts else _positioned(columns).empty_table(),
        rows_read=sum(candidate.info.granules[number].rows for number, _ in granules),
        granules_read=len(granules),
        granules_pruned=len(candidate.info.granules) - len(granules),
        false_granules=len(granules) - _granules_with(candidate.info, parts),
        rows_skipped=sum(part.num_rows for part in matching) - sum(part.num_rows for part in parts),
    )


def _is_younger(snapshot: Snapshot, candidate: Candidate) -> bool:
    """Whether a wanted column was added after the file was written: it is null in every row, and null equals nothing."""
    columns = FileColumns(definition=snapshot.state.definition, info=candidate.info)
    return any(columns.stored(field) is None and columns.constant(field) is None for field in candidate.wanted.fields)


def _together(candidate: Candidate, granules: Sequence[tuple[int, Wanted]]) -> Iterator[tuple[list[int], Wanted]]:
    """Granules to read in one go, with all that is wanted of them."""
    if len(granules) == 1:
        yield [granules[0][0]], granules[0][1]
        return
    numbers: list[int] = []
    rows = 0
    for number, _ in granules:
        more = candidate.info.granules[number].rows
        if numbers and rows + more > _ROWS_AT_ONCE:
            yield numbers, candidate.wanted
            numbers, rows = [], 0
        numbers.append(number)
        rows += more
    if numbers:
        yield numbers, candidate.wanted


def _exact(chunkset: OpenChunkset, numbers: list[int], wanted: Wanted, columns: Sequence[Field]) -> pa.Table:
    """The rows of some granules that are wanted, with `columns` and their positions; the others are never converted."""
    stored = chunkset.read_stored(numbers, list(dict.fromkeys([*wanted.fields, *columns])))
    places = rows_of(wanted.arrays, [chunkset.columns.column(stored, field) for field in wanted.fields])
    taken = stored.take(places)
    positions = pa.array(_positions(chunkset.info, numbers, places.to_numpy()))
    return pa.Table.from_arrays([positions, *(chunkset.columns.column(taken, field) for field in columns)], schema=_positioned(columns))


def _positions(info: ChunksetInfo, numbers: list[int], places: NDArray[np.integer]) -> NDArray[np.int64]:
    """Where rows of these granules, counted through, are in their chunkset."""
    if len(numbers) == 1:
        return np.asarray(places + sum(granule.rows for granule in info.granules[: numbers[0]]), np.int64)
    starts = _starts(info)
    ends = np.cumsum([info.granules[number].rows for number in numbers])
    before = starts[numbers] - np.concatenate([[0], ends[:-1]])
    return np.asarray(places + before[np.searchsorted(ends, places, "right")], np.int64)


def _granules_with(info: ChunksetInfo, parts: Sequence[pa.Table]) -> int:
    """How many granules these rows are of; no part has rows of another's."""
    if len(parts) == 1 and parts[0].num_rows <= 1:
        return int(parts[0].num_rows)
    starts = _starts(info)
    return sum(len(np.unique(np.searchsorted(starts, part[ROW].to_numpy(), "right"))) for part in parts)


def _starts(info: ChunksetInfo) -> NDArray[np.int64]:
    ends = np.cumsum([granule.rows for granule in info.granules], dtype=np.int64)
    return np.concatenate([np.zeros(1, np.int64), ends[:-1]])


def _positioned(columns: Sequence[Field]) -> pa.Schema:
    return pa.schema([(ROW, pa.int64()), *(field.to_arrow() for field in columns)])


def _admitted(store: Store, chunkset: OpenChunkset, candidate: Candidate, visible: Sequence[int]) -> list[tuple[int, Wanted]]:
    """The granules to read, each with the values that its range leaves possible."""
    numbers = visible if candidate.granules is None else [number for number in candidate.granules if number in visible]
    if candidate.granules is not None and len(numbers) == len(candidate.wanted) == 1:
        # Nothing to choose: to ask the footer would take longer than what it saves now and then.
        return [(numbers[0], candidate.wanted)]
    parts = ((number, _in_range(chunkset, number, candidate.wanted)) for number in numbers)
    left = [(number, part) for number, part in parts if len(part)]
    # A point index has told granules apart better than their filters could. Where no value is left to two granules, all that a
    # filter could tell is whether the file has it, which the file's own filter has told. An adopted file's writer may have
    # chosen another physical type, under which values hash differently.
    told_apart = candidate.granules is not None or sum(len(part) for _, part in left) <= len(candidate.wanted)
    if len(left) <= 1 or told_apart or chunkset.info.adopted is not None:
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
