"""Hidden rows: which positions of a chunkset newer rows replaced or a delete removed.

A `skips` run that cannot be read is an error, as for `files`: going on without it would bring hidden rows back.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from needlefish.format.metadata_key import file_key
from needlefish.format.run import KEY
from needlefish.format.skips_record import SKIPS, decode_rows
from needlefish.index import newest
from needlefish.index.combine import UNITE_SKIPS
from needlefish.index.cost import Cost
from needlefish.model.chunkset import ChunksetInfo
from needlefish.table.snapshot import Snapshot

# Files looked up together, and the bytes that their bitmaps may take: at most a bit for each row.
_GROUP_FILES = 256
_GROUP_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """The hidden rows of one chunkset."""

    rows: BitMap

    def count(self, first: int, end: int) -> int:
        """How many of the rows from `first` up to `end` are hidden."""
        return int(self.rows.range_cardinality(first, end))

    def shown(self, first: int, end: int) -> NDArray[np.bool_]:
        """Which of these rows are not."""
        mask = np.ones(end - first, np.bool_)
        mask[np.asarray((self.rows & BitMap(range(first, end))).to_array(), np.int64) - first] = False
        return mask

    def left(self, rows: pa.Table, positions: pa.ChunkedArray) -> pa.Table:
        """The rows that are not hidden, of a few that lie at rising positions."""
        at = positions.to_numpy()
        return rows.filter(pa.array(self.shown(int(at[0]), int(at[-1]) + 1)[at - at[0]])) if len(at) else rows


def skips_of(snapshot: Snapshot, keys: Iterable[str]) -> dict[str, BitMap]:
    """The hidden rows of these chunksets, by the keys of their `files` records; those without any are not there."""
    readers = snapshot.runs("skips")
    if not readers:
        return {}
    found: dict[str, BitMap] = {}
    for records in newest.get(snapshot.store, readers, keys, UNITE_SKIPS):
        for key, data in zip(records[KEY].to_pylist(), records[SKIPS].to_pylist(), strict=True):
            found[key] = decode_rows(data, f"key {key}")
    return found


def with_hidden(snapshot: Snapshot, infos: Iterable[ChunksetInfo]) -> Iterator[tuple[ChunksetInfo, Hidden | None]]:
    """Chunksets with their hidden rows, None without any. Memory holds the bitmaps of one group of files.

    Files in the order of keys, as the `files` runs have them, read each block of the `skips` runs about once.
    """
    if not snapshot.state.runs_of("skips"):
        yield from ((info, None) for info in infos)
        return
    for group in _groups(infos):
        keys = [file_key(info.partition, info.file_name) for info in group]
        found = skips_of(snapshot, keys)
        for info, key in zip(group, keys, strict=True):
            rows = found.pop(key, None)
            yield info, Hidden(rows=rows) if rows else None


def is_hidden(info: ChunksetInfo, hidden: Hidden | None) -> bool:
    """Whether no row of the chunkset is left."""
    return hidden is not None and hidden.count(0, info.rows) == info.rows


def visible_granules(info: ChunksetInfo, hidden: Hidden | None) -> list[int]:
    """The granules of which at least one row is left."""
    if hidden is None:
        return list(range(len(info.granules)))
    starts = granule_starts(info)
    return [number for number, granule in enumerate(info.granules) if hidden.count(starts[number], starts[number + 1]) < granule.rows]


def granule_starts(info: ChunksetInfo) -> list[int]:
    """The position of each granule's first row, and the end."""
    return [0, *np.cumsum([granule.rows for granule in info.granules]).tolist()]


def shown_rows(info: ChunksetInfo, hidden: Hidden, granules: Sequence[int]) -> NDArray[np.bool_]:
    """A mask over the rows of some granules, in their order."""
    starts = granule_starts(info)
    return np.concatenate([np.empty(0, np.bool_), *(hidden.shown(starts[number], starts[number + 1]) for number in granules)])


def expected_of_skips(snapshot: Snapshot, infos: Sequence[ChunksetInfo]) -> Cost:
    """What looking these up is going to cost."""
    keys = [file_key(info.partition, info.file_name) for info in infos]
    return sum((reader.expected_of_get(keys) for reader in snapshot.runs("skips")), Cost()) if keys else Cost()


def _groups(infos: Iterable[ChunksetInfo]) -> Iterator[list[ChunksetInfo]]:
    group: list[ChunksetInfo] = []
    bits = 0
    for info in infos:
        group.append(info)
        bits += info.rows
        if len(group) >= _GROUP_FILES or bits >= 8 * _GROUP_BYTES:
            yield group
            group, bits = [], 0
    if group:
        yield group
