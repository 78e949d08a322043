"""Neighbouring rows compared as keys are: NaN is the greatest number and equals itself, -0.0 equals 0.0."""

import pyarrow as pa
import pyarrow.compute as pc


def equal_next(keys: pa.RecordBatch) -> pa.Array:
    """Which rows have the key of the row after them; one answer fewer than rows."""
    equal = _same(keys[0])
    for column in keys.columns[1:]:
        equal = pc.and_(equal, _same(column))
    return equal


def above_next(keys: pa.RecordBatch) -> pa.Array:
    """Which rows have a greater key than the row after them."""
    equal, falls = _same(keys[0]), _falls(keys[0])
    for column in keys.columns[1:]:
        falls = pc.or_(falls, pc.and_(equal, _falls(column)))
        equal = pc.and_(equal, _same(column))
    return falls


def _same(values: pa.Array) -> pa.Array:
    left, right = values.slice(0, len(values) - 1), values.slice(1)
    equal = pc.equal(left, right)
    return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right))) if pa.types.is_floating(values.type) else equal


def _falls(values: pa.Array) -> pa.Array:
    left, right = values.slice(0, len(values) - 1), values.slice(1)
    above = pc.greater(left, right)
    return pc.or_(above, pc.and_(pc.is_nan(left), pc.invert(pc.is_nan(right)))) if pa.types.is_floating(values.type) else above
