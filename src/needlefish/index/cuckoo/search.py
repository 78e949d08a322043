"""Fingerprints in bucket rows as they lie in the file: in place where it can be done, unpacked where it cannot."""

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.cuckoo_search import Matches, Positions, matches_in_row, matches_in_rows, matches_in_threes
from needlefish.format.cuckoo_rows import Rows, unpack_rows


def search_row(row: Rows, bits: int, slots: int, fingerprint: int) -> Positions:
    """The slots of one row that have this fingerprint."""
    if bits in (12, 24):
        return search_rows(row, bits, slots, np.zeros(1, np.int64), np.array([fingerprint], np.uint32)).positions
    return matches_in_row(unpack_rows(row, bits, slots)[0], fingerprint)


def search_rows(rows: Rows, bits: int, slots: int, asked: Positions, fingerprints: NDArray[np.uint32]) -> Matches:
    """For each question, of which `asked` has the row, the slots with its fingerprint."""
    if bits in (12, 24) and (found := matches_in_threes(rows, bits, slots, asked, fingerprints)) is not None:
        return found
    return matches_in_rows(unpack_rows(rows, bits, slots), asked, fingerprints)
