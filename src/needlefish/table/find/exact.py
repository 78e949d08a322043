"""Which rows equal which wanted values, over several columns at once and without a loop over rows.

Every column in turn gives each side a number for its value, and numbers of the columns so far are folded into one.
"""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from needlefish.table.find.wanted import one_zero

Numbers: TypeAlias = NDArray[np.int64]
Column: TypeAlias = pa.Array | pa.ChunkedArray

_NOWHERE = -1


def number_rows(wanted: Sequence[Column], rows: Sequence[Column]) -> tuple[Numbers, Numbers]:
    """A number for every wanted value and for every row: equal where the values are, -1 for rows that nobody wants.

    -0.0 equals 0.0 and NaN equals itself; nulls equal nothing that is wanted.
    """
    of_wanted = np.zeros(len(wanted[0]), np.int64)
    of_rows = np.zeros(len(rows[0]), np.int64)
    for one, other in zip(wanted, rows, strict=True):
        distinct, numbers = _distinct(one)
        found = _places(other, distinct)
        # Both factors are below the number of wanted values, so that the product fits.
        of_wanted = of_wanted * len(distinct) + numbers
        of_rows = np.where((of_rows < 0) | (found < 0), _NOWHERE, of_rows * len(distinct) + found)
        if len(wanted) > 1:
            of_wanted, of_rows = _folded(of_wanted, of_rows)
    return of_wanted, of_rows


def rows_of(wanted: Sequence[Column], rows: Sequence[Column]) -> pa.Array:
    """The places of rows that equal a wanted value, in ascending order."""
    if len(wanted) == 1 and len(wanted[0]) > 1:
        return pc.indices_nonzero(pc.is_in(_comparable(rows[0]), value_set=_comparable(wanted[0]), skip_nulls=True))
    if len(wanted[0]) != 1 or any(pa.types.is_floating(column.type) for column in wanted):
        return pa.array(np.flatnonzero(number_rows(wanted, rows)[1] >= 0))
    # One value, which is what most finds look for: comparing beats numbering by far.
    same = pc.equal(rows[0], wanted[0][0])
    for one, other in zip(wanted[1:], rows[1:], strict=True):
        same = pc.and_(same, pc.equal(other, one[0]))
    return pc.indices_nonzero(same)


def pairs_of(of_wanted: Numbers, of_rows: Numbers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Places of wanted values and of rows with the same number, each pair once."""
    order = np.argsort(of_wanted, kind="stable")
    first = np.searchsorted(of_wanted, of_rows, "left", sorter=order)
    counts = np.searchsorted(of_wanted, of_rows, "right", sorter=order) - first
    rows = np.repeat(np.arange(len(of_rows)), counts)
    steps = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return order[np.repeat(first, counts) + steps], rows


def _distinct(values: Column) -> tuple[pa.Array, Numbers]:
    distinct = pc.unique(_comparable(values))
    return distinct, _places(values, distinct)


def _places(values: Column, distinct: pa.Array) -> Numbers:
    found = pc.index_in(_comparable(values), distinct, skip_nulls=True)
    return np.asarray(pc.fill_null(found, _NOWHERE).to_numpy(), np.int64)


def _comparable(values: Column) -> Column:
    """One bit pattern for zero and one for NaN."""
    if not pa.types.is_floating(values.type):
        return values
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), one_zero(values))


def _folded(of_wanted: Numbers, of_rows: Numbers) -> tuple[Numbers, Numbers]:
    """The same numbers counted from zero."""
    distinct, numbers = np.unique(of_wanted, return_inverse=True)
    if not len(distinct):
        return numbers, np.full(len(of_rows), _NOWHERE, np.int64)
    found = np.minimum(np.searchsorted(distinct, of_rows), len(distinct) - 1)
    return numbers, np.where(distinct[found] == of_rows, found, _NOWHERE)
