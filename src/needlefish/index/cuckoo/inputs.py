"""The runs that a merge reads: each a chain of parts, with what of it goes into the result."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from needlefish.errors import CorruptError, InvalidError
from needlefish.format.cuckoo_rows import Cells
from needlefish.format.cuckoo_run import KEPT, REMOVED
from needlefish.format.granule_table import check_granules, chunkset_ranges, kept_granules
from needlefish.index.cuckoo.file import CuckooFile
from needlefish.index.cuckoo.filters import Filters
from needlefish.model.log import RunRef
from needlefish.store import Store

# A run with a smaller share of dead filters keeps them, flagged; one with more is rewritten without them.
REWRITE_SHARE = 0.25


class MergeInput:
    """One run: its parts have the same granules, and their buckets follow each other."""

    def __init__(self, store: Store, parts: Sequence[CuckooFile]) -> None:
        self._parts = parts
        self._table = _granule_table(store, parts)
        self._filters = _filters(store, parts)
        self._kept: NDArray[np.bool_] = np.ones(len(self._filters), np.bool_)

    def chunksets(self) -> tuple[list[str], NDArray[np.int64]]:
        """The keys of chunksets whose granules are neighbours, and how many of these each has."""
        return chunkset_ranges(self._table)

    def drop(self, dead: NDArray[np.bool_]) -> None:
        """Flags these filters, or leaves them out where they are many; so it goes for those that were flagged before."""
        gone = dead | (self._filters.states == REMOVED)
        if gone.any() and gone.sum() >= REWRITE_SHARE * len(gone):
            self._kept = ~gone
        else:
            states = np.where(gone, REMOVED, self._filters.states).astype(np.uint8)
            self._filters = Filters(self._filters.slots, states)

    def kept_slots(self) -> NDArray[np.uint8]:
        return self._filters.slots[self._kept]

    def kept_states(self) -> NDArray[np.uint8]:
        return self._filters.states[self._kept]

    def kept_table(self) -> bytes:
        return kept_granules(self._table, self._kept)

    def cells(self, store: Store, first: int, end: int) -> Cells:
        """The slots of the filters that go into the result, in the buckets from `first` up to `end`."""
        total = self._filters.total_slots
        spans = [(part, max(first, part.point.first), min(end, part.point.end)) for part in self._parts]
        cells = np.concatenate([part.cells(store, low, high, total) for part, low, high in spans if low < high])
        return cells if self._kept.all() else cells[:, np.repeat(self._kept, self._filters.slots)]


def logical_runs(refs: Sequence[RunRef], first: int, end: int) -> list[list[CuckooFile]]:
    """Parts of one run stand next to each other in ascending order; each run must have the buckets that are wanted."""
    runs: list[list[CuckooFile]] = []
    for file in map(CuckooFile, refs):
        if runs and _follows(file, runs[-1][-1]):
            runs[-1].append(file)
        else:
            runs.append([file])
    for run in runs:
        if run[0].point.first > first or run[-1].point.end < end:
            raise InvalidError(
                f"runs: {run[0].path} and the parts next to it have the buckets {run[0].point.first} to {run[-1].point.end}, and {first} to "
                f"{end} are wanted; pass all parts of a run next to each other, in ascending order"
            )
    return runs


def _follows(file: CuckooFile, before: CuckooFile) -> bool:
    return file.point.first == before.point.end and file.point.granules == before.point.granules


def _granule_table(store: Store, parts: Sequence[CuckooFile]) -> bytes:
    tables = [part.granule_table(store) for part in parts]
    for part, table in zip(parts, tables, strict=True):
        if table != tables[0]:
            raise CorruptError(f"{part.path}: other granules than {parts[0].path}, though both are parts of one run")
    check_granules(tables[0], parts[0].path)
    return tables[0]


def _filters(store: Store, parts: Sequence[CuckooFile]) -> Filters:
    """Parts may have been made at different times: a filter that one of them calls removed is."""
    first, *others = [part.filters(store) for part in parts]
    states = first.states
    for part, other in zip(parts[1:], others, strict=True):
        if not np.array_equal(first.slots, other.slots):
            raise CorruptError(f"{part.path}: other slots than {parts[0].path}, though both are parts of one run")
        states = np.where(states == KEPT, other.states, states)
    return Filters(first.slots, states)
