"""Rows of a chunkset by their positions, some granules at a time."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.store import Store
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.skips import granule_starts

# Rows decoded together: a request for each granule would take long where requests do.
STRETCH_ROWS = 65_536

# Positions in a chunkset, rising, and the rows that lie there.
Located = tuple[NDArray[np.int64], pa.Table]


def rows_at(store: Store, definition: TableDefinition, info: ChunksetInfo, rows: BitMap, fields: Sequence[Field]) -> Iterator[Located]:
    """Granules without any of these rows are not read, and a file without any is not opened."""
    starts = granule_starts(info)
    stretches = list(_stretches(rows, starts))
    if not stretches:
        return
    chunkset = open_chunkset(store, definition, info)
    for granules in stretches:
        positions = np.asarray((rows & BitMap(range(starts[granules[0]], starts[granules[-1] + 1]))).to_array(), np.int64)
        read = chunkset.read(granules, fields)
        yield positions, read if len(positions) == read.num_rows else read.take(pa.array(_places(positions, granules, starts)))


def _stretches(rows: BitMap, starts: Sequence[int]) -> Iterator[list[int]]:
    """The granules with any of the rows, as many at once as may be decoded together."""
    taken: list[int] = []
    taken_rows = 0
    for number in range(len(starts) - 1):
        if not rows.range_cardinality(starts[number], starts[number + 1]):
            continue
        granule_rows = starts[number + 1] - starts[number]
        if taken and taken_rows + granule_rows > STRETCH_ROWS:
            yield taken
            taken, taken_rows = [], 0
        taken.append(number)
        taken_rows += granule_rows
    if taken:
        yield taken


def _places(positions: NDArray[np.int64], granules: Sequence[int], starts: Sequence[int]) -> NDArray[np.int64]:
    """Where positions of a chunkset lie in rows that have these granules alone."""
    firsts = np.array([starts[number] for number in granules], np.int64)
    sizes = np.array([starts[number + 1] - starts[number] for number in granules], np.int64)
    of_granule = np.searchsorted(firsts, positions, side="right") - 1
    return positions - firsts[of_granule] + (np.cumsum(sizes) - sizes)[of_granule]


def all_rows(info: ChunksetInfo) -> BitMap:
    return BitMap(range(info.rows))
