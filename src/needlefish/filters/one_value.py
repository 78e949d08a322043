"""One value, of Python or of Arrow, as an Arrow array of one: exactly, or not at all.

pyarrow alone would cut 1.5 to 1 for an integer column and drop microseconds for a column of milliseconds; a search for
such a value must not become a search for another one. Floats alone are rounded, to the nearest of their width.
"""

from datetime import datetime, time, timedelta

import pyarrow as pa
import pyarrow.types as kinds

from needlefish.errors import InvalidError


def array_of_one(value: object, kind: pa.DataType) -> pa.Array:
    """`value` as a column of type `kind` would hold it; InvalidError when none of its values can be equal to it."""
    if value is None:
        raise InvalidError("value None: nulls are never in an index; ask for rows where the column is null instead")
    try:
        array = _converted(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidError(f"value {value!r} does not fit the column's type {kind}: {error}") from error
    if array.null_count:
        # pyarrow reads pandas' NaT and NA as null.
        raise InvalidError(f"value {value!r} reads as null: nulls are never in an index")
    return array


def _converted(value: object, kind: pa.DataType) -> pa.Array:
    if isinstance(value, pa.Scalar):
        return pa.array([value.cast(kind)], kind)
    finest = _finest(value, kind)
    # The cast refuses what the target's unit would lose.
    array = pa.array([value], kind) if finest is None else pa.array([value], finest).cast(kind)
    if kinds.is_integer(kind) and array[0].as_py() != value:
        raise ValueError("it is not a whole number")
    if kinds.is_date(kind) and isinstance(value, datetime) and value.time() != time():
        raise ValueError("it has a time of day; give a date")
    return array


def _finest(value: object, kind: pa.DataType) -> pa.DataType | None:
    """The microsecond type to go through when Python's own time types meet a coarser unit."""
    if isinstance(value, datetime) and kinds.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return pa.timestamp("us", tz=kind.tz)
    if isinstance(value, time) and kinds.is_time32(kind):
        return pa.time64("us")
    if isinstance(value, timedelta) and kinds.is_duration(kind) and kind.unit in ("s", "ms"):
        return pa.duration("us")
    return None
