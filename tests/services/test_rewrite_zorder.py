"""Z-values: ranks among cuts of a sample, spread over all bits, interleaved."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.services.rewrite.zorder import MOST_COLUMNS, bits_for, cuts_of, interleaved, ranks_of, z_values

NAN = float("nan")
BITS = 6

ASCENDING: dict[str, pa.Array] = {
    "int8": pa.array([-128, -1, 0, 1, 127], pa.int8()),
    "int64": pa.array([-(2**63), -1, 0, 2**62, 2**63 - 1]),
    "uint64": pa.array([0, 1, 2**63, 2**64 - 1], pa.uint64()),
    "double": pa.array([-np.inf, -1.5, 0.0, 1e-300, np.inf]),
    "float": pa.array([-1.5, 0.0, 2.5], pa.float32()),
    "string": pa.array(["", "a", "a\x00", "ab", "b", "ä", "中", "😀"]),
    "binary": pa.array([b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
    "date": pa.array([date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "timestamp": pa.array([datetime(1, 1, 1, tzinfo=UTC) + timedelta(days=400 * n) for n in range(5)], pa.timestamp("us", tz="UTC")),
    "decimal": pa.array([Decimal("-99.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("0.01"), Decimal("99.99")], pa.decimal128(4, 2)),
    "boolean": pa.array([False, True]),
}


@pytest.mark.parametrize("kind", ASCENDING)
def test_ranks_rise_with_the_values_of_every_type(kind: str) -> None:
    values = ASCENDING[kind]
    shuffled = values.take(pa.array(np.random.default_rng(7).permutation(len(values))))
    cuts = cuts_of(shuffled, BITS)
    assert cuts.to_pylist() == values.to_pylist()
    ranks = ranks_of(values, cuts, BITS)
    assert (np.diff(ranks.astype(np.int64)) > 0).all()
    assert ranks.max() < 2**BITS


@pytest.mark.parametrize("kind", ASCENDING)
def test_no_value_is_below_any(kind: str) -> None:
    values = pa.concat_arrays([ASCENDING[kind], pa.nulls(1, ASCENDING[kind].type)])
    ranks = ranks_of(values, cuts_of(values, BITS), BITS)
    assert ranks[-1] == 0
    assert (ranks[:-1] > 0).all()


def test_nan_is_above_every_number_and_zeros_are_one() -> None:
    values = pa.array([NAN, None, -0.0, 0.0, np.inf])
    nan, null, minus, zero, infinite = ranks_of(values, cuts_of(values, BITS), BITS).tolist()
    assert null == 0 < minus == zero < infinite < nan == 2**BITS - 1


def test_skewed_values_spread_over_all_ranks() -> None:
    """Values that double each time: by size nearly all would be in the first of 64 equal parts."""
    values = pa.array([2**n for n in range(60)])
    ranks = ranks_of(values, cuts_of(values, BITS), BITS)
    assert len(set(ranks.tolist())) == 60
    assert ranks.max() - ranks.min() > 0.9 * 2**BITS


def test_few_distinct_values_count_as_much_as_many() -> None:
    """The rank of the second of two values has the highest bit, or it would be of no weight beside a column of thousands."""
    values = pa.array([7, 9] * 50)
    low, high = sorted(set(ranks_of(values, cuts_of(values, BITS), BITS).tolist()))
    assert low < 2 ** (BITS - 1) <= high


def test_values_that_no_sample_had_lie_between_its_cuts() -> None:
    cuts = cuts_of(pa.array(list(range(0, 1000, 100))), BITS)
    ranks = ranks_of(pa.array([-5, 0, 50, 100, 5000]), cuts, BITS).tolist()
    assert ranks == sorted(ranks)
    assert ranks[1] == ranks[2] < ranks[3] < ranks[4]
    assert ranks[0] < ranks[1]


def test_a_sample_without_values_ranks_all_alike() -> None:
    cuts = cuts_of(pa.nulls(3, pa.string()), BITS)
    assert len(cuts) == 0
    assert ranks_of(pa.array(["x", None, "y"]), cuts, BITS).tolist() == [31, 0, 31]


def test_there_are_never_more_cuts_than_bits_can_tell_apart() -> None:
    values = pa.array(np.random.default_rng(1).integers(0, 10**9, 50_000))
    ranks = ranks_of(values, cuts_of(values, BITS), BITS)
    assert ranks.max() < 2**BITS
    counts = np.bincount(ranks.astype(np.int64), minlength=2**BITS)
    assert counts.max() < 3 * 50_000 / 2**BITS, "parts of about the same size"


@pytest.mark.parametrize("columns", range(2, MOST_COLUMNS + 1))
def test_bits_fit_a_signed_number(columns: int) -> None:
    assert 7 <= bits_for(columns) <= 10
    full = np.array([2 ** bits_for(columns) - 1], np.uint64)
    assert int(interleaved([full] * columns, bits_for(columns))[0]) == 2 ** (columns * bits_for(columns)) - 1 < 2**63


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 63)), min_size=1))
def test_interleaving_bit_by_bit(pairs: list[tuple[int, int]]) -> None:
    ranks = [np.array(column, np.uint64) for column in zip(*pairs, strict=True)]

    def expected(pair: tuple[int, int]) -> int:
        bits = "".join(f"{pair[0]:06b}"[at] + f"{pair[1]:06b}"[at] for at in range(6))
        return int(bits, 2)

    assert interleaved(ranks, BITS).tolist() == [expected(pair) for pair in pairs]


def test_rows_near_in_both_columns_are_near_in_the_order() -> None:
    """A square of 64 x 64 cells in 64 stretches: sorted by one column each stretch has all values of the other."""
    cells: list[tuple[Any, Any]] = [(x, y) for x in range(64) for y in range(64)]
    columns = [pa.array(column) for column in zip(*cells, strict=True)]
    z = z_values(columns, [cuts_of(column, bits_for(2)) for column in columns]).to_numpy()
    order = np.argsort(z, kind="stable")
    spans = np.array([[np.ptp([cells[at][side] for at in part]) for side in (0, 1)] for part in np.split(order, 64)])
    assert spans.mean(axis=0).max() <= 12, "on average a fifth of either side"
    assert np.median(spans) <= 8
