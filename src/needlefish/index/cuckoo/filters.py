"""What is known of the filters of a run beside their fingerprints: slots and states, and whose slot is whose."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from needlefish.format.cuckoo_run import EVERYTHING, KEPT, Bytes, decode_filters
from needlefish.model.point_index import PointRun

Ordinals = NDArray[np.int64]


class Filters:
    """The filter table of one run: 2 bytes for each filter, and 4 more once filters differ in slots.

    A run of ten million filters keeps 20 to 60 MB of it; bucket rows of such a run have as many.
    """

    __slots__ = ("_ends", "_even", "everything", "slots", "states", "total_slots")

    def __init__(self, slots: Bytes, states: Bytes) -> None:
        self.slots = slots
        self.states = states
        self.total_slots = int(slots.sum(dtype=np.int64))
        self.everything: Ordinals = np.flatnonzero(states == EVERYTHING)
        # Where all filters have the same slots, a division finds the filter of a slot.
        self._even = int(slots[0]) if len(slots) and (slots == slots[0]).all() else 0
        self._ends = None if self._even else np.cumsum(slots, dtype=np.uint32 if self.total_slots < 2**32 else np.uint64)

    @classmethod
    def decoded(cls, data: bytes, point: PointRun, path: str) -> Self:
        return cls(*decode_filters(data, point.granules, path))

    def __len__(self) -> int:
        return len(self.slots)

    def owners(self, positions: Ordinals) -> Ordinals:
        """The filters whose slots are at these positions of a row."""
        if self._ends is None:
            return positions // self._even
        return np.searchsorted(self._ends, positions.astype(self._ends.dtype), side="right")

    def kept(self, ordinals: Ordinals) -> NDArray[np.bool_]:
        """Which of these filters still answer."""
        return np.asarray(self.states[ordinals] == KEPT, np.bool_)
