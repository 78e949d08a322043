"""Comparing rows with wanted values without a loop, against a loop."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as hs

from needlefish.table.find import number_rows, pairs_of
from needlefish.table.find.fitting import fitting

_FLOATS = hs.sampled_from([0.0, -0.0, 1.5, -1.5, math.inf, math.nan, -math.nan])
_TEXTS = hs.sampled_from(["", "a", "b", "ab"])
_NUMBERS = hs.integers(0, 3)
_WANTED = hs.lists(hs.tuples(_FLOATS, _TEXTS, _NUMBERS), max_size=30)
_ROWS = hs.lists(hs.tuples(hs.none() | _FLOATS, hs.none() | _TEXTS, hs.none() | _NUMBERS), max_size=30)
_TYPES = [pa.float64(), pa.string(), pa.int32()]

Value = tuple[object, ...]


def columns(rows: list[Value], count: int) -> list[pa.Array]:
    return [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(_TYPES[:count])]


def equal(one: Value, other: Value) -> bool:
    return all(a is not None and b is not None and (a == b or (a != a and b != b)) for a, b in zip(one, other, strict=True))


@given(_WANTED, _ROWS, hs.integers(1, 3))
def test_pairs_are_those_of_a_loop(wanted: list[Value], rows: list[Value], count: int) -> None:
    of_wanted, of_rows = number_rows(columns(wanted, count), columns(rows, count))
    at, places = pairs_of(of_wanted, of_rows)
    expected = {(i, j) for i, w in enumerate(wanted) for j, r in enumerate(rows) if equal(w[:count], r[:count])}
    assert sorted(zip(at.tolist(), places.tolist(), strict=True)) == sorted(expected)
    assert set(np.flatnonzero(of_rows >= 0).tolist()) == {j for _, j in expected}


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([-129, -128, 127, 128]), pa.int8(), [None, -128, 127, None]),
        (pa.array([0, 2**32 - 1, 2**63], pa.uint64()), pa.uint32(), [0, 2**32 - 1, None]),
        (pa.array([0.5, 0.1, 1e300, math.inf]), pa.float32(), [0.5, None, None, math.inf]),
        (pa.array([1, 2]).cast(pa.decimal128(38, 2)), pa.decimal128(5, 2), [1, 2]),
        (pa.array([1, 10_000]).cast(pa.decimal128(38, 2)), pa.decimal128(5, 2), [1, None]),
    ],
)
def test_values_that_a_narrower_type_cannot_hold_are_not_there(values: pa.Array, kind: pa.DataType, expected: list[object]) -> None:
    found = fitting(values, kind)
    assert found.type == kind
    assert found.to_pylist() == expected


def test_not_a_number_fits_every_width() -> None:
    assert fitting(pa.array([math.nan]), pa.float32()).null_count == 0
