"""Values under the narrower type that an older file has: those that do not fit cannot be in the file."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def fitting(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """`values` as `kind`, null where one does not fit."""
    if values.type == kind:
        return values
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        # As scalars of the wider type: Arrow would otherwise compare unsigned values as signed ones, and refuse the large.
        least, most = (pa.scalar(int(limit), values.type) for limit in (limits.min, limits.max))
        inside = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))
        return pc.if_else(inside, values, None).cast(kind)
    if pa.types.is_floating(kind):
        narrow = values.cast(kind, safe=False)
        same = pc.or_(pc.equal(narrow.cast(values.type), values), pc.is_nan(values))
        return pc.if_else(same, narrow, None)
    return pa.array([_or_null(value, kind) for value in values.to_pylist()], kind)


def _or_null(value: object, kind: pa.DataType) -> object:
    try:
        return pa.scalar(value, kind).as_py()
    except pa.ArrowException:
        return None
