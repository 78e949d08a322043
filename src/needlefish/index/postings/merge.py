"""Merges postings runs by slot, a stretch of pages at a time, and leaves out the granules of dead chunksets."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from needlefish.errors import InvalidError
from needlefish.filters.postings import Pairs, sort_distinct
from needlefish.format.granule_table import chunkset_ranges, kept_granules
from needlefish.index.point import Alive
from needlefish.index.postings.assembly import Assembly
from needlefish.index.postings.build import stretches
from needlefish.index.postings.encode import Stretch, split_hot
from needlefish.index.postings.file import PostingsFile
from needlefish.index.postings.shape import Shape, logical_runs, merged_layout
from needlefish.index.postings.source import GONE, Source
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointRun
from needlefish.runtime import Runtime, in_parallel
from needlefish.store import Store

# Chunksets that `alive` is asked about at once.
_ALIVE_KEYS = 4096
# Stretches that are merged side by side before they are encoded: bounds what memory holds of the inputs.
_WINDOW = 4


def merge_postings(store: Store, runs: Sequence[RunRef], alive: Alive, runtime: Runtime, part: tuple[int, int] | None = None) -> RunRef:
    """Fills the seam `PointMerge`. Parts of one result need the same `runs` and the same answers of `alive`."""
    layout = merged_layout(runs)
    first, end = _checked_part(layout, part)
    groups = [[PostingsFile(ref) for ref in group] for group in logical_runs(runs)]
    tables = [group[0].granule_table(store) for group in groups]
    sources, table = _numbered(groups, tables, _Living(alive))
    granules = sum(int((source.ordinals != GONE).sum()) for source in sources)
    shape = Shape(layout.slots, layout.page_slots, max(1, granules))
    assembly = Assembly(shape)
    cuts = stretches(shape, first, end, layout.keys * (end - first) // layout.end)
    for at in range(0, len(cuts), _WINDOW):
        assembly.add(in_parallel(lambda cut: _merged(store, sources, shape, *cut), cuts[at : at + _WINDOW]))
    return assembly.put(store, runtime, runs[0].kind, replace(layout, granules=granules, first=first, end=end), table)


def _checked_part(layout: PointRun, part: tuple[int, int] | None) -> tuple[int, int]:
    first, end = part or (0, layout.end)
    if not 0 <= first < end <= layout.end:
        raise InvalidError(f"part={part!r}: the result has the pages from 0 up to {layout.end}; take some of them")
    return first, end


class _Living:
    """Asks about every chunkset once."""

    def __init__(self, alive: Alive) -> None:
        self._alive = alive
        self._known: dict[str, bool] = {}

    def among(self, keys: Sequence[str]) -> list[bool]:
        new = list(dict.fromkeys(key for key in keys if key not in self._known))
        for at in range(0, len(new), _ALIVE_KEYS):
            asked = new[at : at + _ALIVE_KEYS]
            self._known.update(zip(asked, self._alive(asked), strict=True))
        return [self._known[key] for key in keys]


def _numbered(groups: list[list[PostingsFile]], tables: list[bytes], living: _Living) -> tuple[list[Source], bytes]:
    """The sources with their granules' new ordinals, and the table of those that live."""
    sources, kept_tables, next_ordinal = [], [], 0
    for files, table in zip(groups, tables, strict=True):
        keys, counts = chunkset_ranges(table)
        lives = np.repeat(np.array(living.among(keys), np.bool_), counts)
        ordinals = np.where(lives, next_ordinal + np.cumsum(lives) - 1, GONE)
        next_ordinal += int(lives.sum())
        sources.append(Source(files, ordinals))
        kept_tables.append(kept_granules(table, lives))
    return sources, b"".join(kept_tables)


def _merged(store: Store, sources: list[Source], shape: Shape, first: int, end: int) -> Stretch:
    slots = first * shape.page_slots, min(end * shape.page_slots, shape.slots)
    parts = [source.pairs(store, shape, *slots) for source in sources]
    pairs: Pairs = np.concatenate(parts)
    return split_hot(sort_distinct(pairs, shape.base(first), shape.base(end)), shape, first, end)
