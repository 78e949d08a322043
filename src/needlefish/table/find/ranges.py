"""Range pruning: wanted values are sorted once, and each file takes the stretch of them that its range covers.

Two binary searches for each file, whatever the number of values; never values times files.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Protocol

from needlefish.model.entries import ColumnStats

# Above every encoding of a value: NaN's is eight of these bytes.
_ABOVE = b"\xff" * 16


@dataclass(frozen=True, slots=True)
class Extent:
    """The values a file may hold, in key order; both ends belong to it."""

    lowest: bytes
    highest: bytes


EVERYTHING = Extent(b"", _ABOVE)
NOTHING = Extent(_ABOVE, b"")


def extent_of(stats: ColumnStats | None) -> Extent:
    """What statistics leave possible; without any, everything is."""
    if stats is None:
        return EVERYTHING
    if stats.value_count == stats.null_count:
        return NOTHING
    if stats.min is None or stats.max is None:
        return EVERYTHING
    return Extent(stats.min, _ABOVE if stats.has_nan else stats.max)


class SortedValues(Protocol):
    """Encoded values in key order."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int, /) -> bytes: ...


def stretch(encoded: SortedValues, extent: Extent) -> tuple[int, int]:
    """The first and the end of the sorted values that lie in the extent.

    A bound may be a rounded or leading part of a key, so that values which begin with the upper bound are inside.
    """
    first = bisect_left(encoded, extent.lowest)
    end = bisect_right(encoded, extent.highest, key=lambda value: value[: len(extent.highest)])
    return first, max(first, end)
