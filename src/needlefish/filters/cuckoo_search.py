"""Finding a fingerprint among the slots of a bucket row: of one row for one value, of many rows for many."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.compiling import BUDGET

Cells = NDArray[np.unsignedinteger]
Positions = NDArray[np.int64]

# Nanoseconds of NumPy: for each slot, and for each row on top. They only steer the choice of path.
_SLOT_NS = 0.08
_ROW_NS = 2_000
_THREES_NS = 1.5
# Matches are looked up in words of eight answers where there are enough: twice as fast for a row of megabytes.
_WORD = 8
_MANY_SLOTS = 1 << 14


@dataclass(frozen=True, slots=True)
class Matches:
    """The value of question `questions[i]` is in slot `positions[i]` of its row."""

    questions: Positions
    positions: Positions


def matches_in_row(row: Cells, fingerprint: int) -> Positions:
    """The slots that have this fingerprint, in order."""
    if len(row) <= _MANY_SLOTS:
        return np.flatnonzero(row == row.dtype.type(fingerprint))
    # One byte in 256 is a match: the kernel would look at every stretch twice.
    if row.itemsize > 1 and BUDGET.pays(round(len(row) * _SLOT_NS)):
        return _compiled(row[None], np.zeros(1, np.int64), np.array([fingerprint], np.uint32)).positions
    return _sparse(row == row.dtype.type(fingerprint))


def matches_in_rows(cells: Cells, rows: Positions, fingerprints: NDArray[np.uint32]) -> Matches:
    """For each question the slots of its row that have its fingerprint; by question, then by slot."""
    if not BUDGET.pays(round(len(rows) * (_ROW_NS + cells.shape[1] * _SLOT_NS))):
        found = [np.flatnonzero(cells[row] == fingerprint) for row, fingerprint in zip(rows, fingerprints, strict=True)]
        return Matches(np.repeat(np.arange(len(rows)), [len(each) for each in found]), np.concatenate([np.zeros(0, np.int64), *found]))
    return _compiled(cells, np.ascontiguousarray(rows), np.ascontiguousarray(fingerprints))


def matches_in_threes(
    packed: NDArray[np.uint8], bits: int, slots: int, rows: Positions, fingerprints: NDArray[np.uint32]
) -> Matches | None:
    """`matches_in_rows` for packed fingerprints of 12 or 24 bits, with four bytes behind the last, such as a checksum.

    None while the compiled kernel does not pay: then the caller unpacks them.
    """
    if not BUDGET.pays(round(len(rows) * (_ROW_NS + slots * _THREES_NS))):
        return None
    from needlefish.filters import cuckoo_search_kernels as compiled

    packed, rows, fingerprints = np.ascontiguousarray(packed), np.ascontiguousarray(rows), np.ascontiguousarray(fingerprints)
    search = compiled.search_threes()
    return _with_room(len(rows), lambda *out: search(packed, slots, bits, rows, fingerprints, *out))


def _compiled(cells: Cells, rows: Positions, fingerprints: NDArray[np.uint32]) -> Matches:
    from needlefish.filters import cuckoo_search_kernels as compiled

    cells = np.require(cells, requirements=["C", "A"])
    search = compiled.search_of(cells.dtype)
    return _with_room(len(rows), lambda *out: search(cells, rows, fingerprints, *out))


def _with_room(asked: int, search: Callable[[Positions, Positions], int]) -> Matches:
    """Searches once, and again in the rare case that there are more matches than questions by far."""
    room = max(1024, 2 * asked)
    while True:
        questions, positions = np.empty(room, np.int64), np.empty(room, np.int64)
        found = search(questions, positions)
        if found <= room:
            return Matches(questions[:found], positions[:found])
        room = found


def _sparse(equal: NDArray[np.bool_]) -> Positions:
    """`flatnonzero` for answers that are nearly all no."""
    whole = len(equal) // _WORD * _WORD
    words = np.flatnonzero(equal[:whole].view(np.uint64) != 0)
    near = (words[:, None] * _WORD + np.arange(_WORD)).reshape(-1)
    return np.concatenate([near[equal[near]], np.flatnonzero(equal[whole:]) + whole])
