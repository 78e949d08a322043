"""Z-order: rows near each other in several columns at once. Pure.

Values become ranks among cuts that a sample was divided by, so that skewed values spread evenly; the ranks' bits are interleaved.
No value is below any value, NaN above any number.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MOST_COLUMNS = 8
# So many bits tell a thousand ranks apart, and two columns a million cells: more than one clustering has granules.
_MOST_BITS = 10
# The least that a sign leaves of a 64-bit number.
_VALUE_BITS = 63


def bits_for(columns: int) -> int:
    """Bits of each of so many columns."""
    return min(_MOST_BITS, _VALUE_BITS // columns)


def cuts_of(sample: pa.Array, bits: int) -> pa.Array:
    """Rising values that divide a sample into parts of about the same size; a value that fills several parts is there once."""
    known = sample.filter(_is_known(sample))
    if not len(known):
        return known
    # Three ranks more than cuts: one below the first cut, and those of nulls and NaN.
    count = min(len(known), 2**bits - 3)
    ordered = known.take(pc.array_sort_indices(known))
    places = np.unique(np.linspace(0, len(ordered) - 1, count).astype(np.int64))
    return ordered.take(pa.array(places)).unique()


def ranks_of(values: pa.Array, cuts: pa.Array, bits: int) -> NDArray[np.uint64]:
    """Where each value lies among the cuts, spread over all numbers of so many bits: few distinct values count as much as many."""
    known = np.asarray(_is_known(values).to_numpy(zero_copy_only=False), np.bool_)
    ranks = np.zeros(len(values), np.uint64)
    ranks[~known] = np.where(values.is_null().to_numpy(zero_copy_only=False)[~known], 0, len(cuts) + 2)
    ranks[known] = 1 + _cuts_up_to(values.filter(pa.array(known)), cuts)
    return ranks * np.uint64(2**bits - 1) // np.uint64(len(cuts) + 2)


def _is_known(values: pa.Array) -> pa.Array:
    """Neither null nor NaN."""
    if pa.types.is_floating(values.type):
        return pc.fill_null(pc.invert(pc.is_nan(values)), False)
    return pc.is_valid(values)


def _cuts_up_to(values: pa.Array, cuts: pa.Array) -> NDArray[np.uint64]:
    """How many cuts are not above each value. Sorting keeps equal ones in turn, so that a cut comes before its own value."""
    order = pc.array_sort_indices(pa.concat_arrays([cuts, values])).to_numpy()
    is_cut = order < len(cuts)
    found = np.empty(len(values), np.uint64)
    found[order[~is_cut] - len(cuts)] = np.cumsum(is_cut)[~is_cut]
    return found


def interleaved(ranks: Sequence[NDArray[np.uint64]], bits: int) -> NDArray[np.uint64]:
    """The highest bit of every column, then the next of every column, and so on."""
    value = np.zeros(len(ranks[0]), np.uint64)
    for bit in range(bits - 1, -1, -1):
        for rank in ranks:
            value = (value << np.uint64(1)) | ((rank >> np.uint64(bit)) & np.uint64(1))
    return value


def z_values(columns: Sequence[pa.Array], cuts: Sequence[pa.Array]) -> pa.Array:
    """One number for each row, to be sorted by."""
    bits = bits_for(len(columns))
    ranks = [ranks_of(column, those, bits) for column, those in zip(columns, cuts, strict=True)]
    return pa.array(interleaved(ranks, bits).astype(np.int64))
