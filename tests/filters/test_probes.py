"""A value must be found under every encoding that an equal value may have been written with."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from needlefish.errors import InvalidError
from needlefish.filters.hash import hash_key_value, hash_value
from needlefish.filters.plain_type import INT32
from needlefish.filters.probes import probe_hashes, probe_key_hashes


def test_a_widened_column_is_probed_at_every_width() -> None:
    hashes = probe_hashes(7, [pa.int32(), pa.int64()])
    assert set(hashes) == {hash_value(7, pa.int32()), hash_value(7, pa.int64())}


def test_widths_that_encode_alike_are_probed_once() -> None:
    assert probe_hashes(7, [pa.int8(), pa.int16(), pa.int32()]) == (hash_value(7, pa.int32()),)


def test_a_value_too_large_for_the_old_width_is_probed_at_the_new_one() -> None:
    assert probe_hashes(2**40, [pa.int32(), pa.int64()]) == (hash_value(2**40, pa.int64()),)


def test_a_value_that_no_width_holds_is_refused() -> None:
    with pytest.raises(InvalidError, match="does not fit"):
        probe_hashes(2**70, [pa.int32(), pa.int64()])


def test_decimal_precisions_are_probed_apart() -> None:
    hashes = probe_hashes(Decimal("1.50"), [pa.decimal128(5, 2), pa.decimal128(20, 2)])
    assert len(hashes) == 2


@pytest.mark.parametrize("zero", [0.0, -0.0, 0, np.float32(-0.0), pa.scalar(-0.0)])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_both_zeros_are_probed_together(zero: float, kind: pa.DataType) -> None:
    assert set(probe_hashes(zero, [kind])) == {hash_value(0.0, kind), hash_value(-0.0, kind)}
    assert hash_value(0.0, kind) != hash_value(-0.0, kind)


def test_nan_cannot_be_asked_of_a_filter() -> None:
    with pytest.raises(InvalidError, match="NaN"):
        probe_hashes(math.nan, [pa.float64()])


def test_the_files_own_physical_type_decides() -> None:
    value = Decimal("1.50")
    assert probe_hashes(value, [pa.decimal128(5, 2)], stored=INT32) == (hash_value(150, pa.int32()),)


def test_composite_keys_probe_every_combination() -> None:
    hashes = probe_key_hashes([0.0, 7], [[pa.float64()], [pa.int32(), pa.int64()]])
    expected = {hash_key_value([zero, 7], [pa.float64(), kind]) for zero in (0.0, -0.0) for kind in (pa.int32(), pa.int64())}
    assert set(hashes) == expected
    assert len(hashes) == 4


def test_a_key_of_one_column_probes_as_the_column() -> None:
    assert probe_key_hashes(["a"], [[pa.string()]]) == probe_hashes("a", [pa.string()])
    with pytest.raises(InvalidError, match="columns"):
        probe_key_hashes(["a"], [[pa.string()], [pa.string()]])
