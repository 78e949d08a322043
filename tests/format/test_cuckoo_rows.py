"""Bucket rows: fingerprints of every width survive packing, and no flipped bit does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.errors import CorruptError
from needlefish.format.cuckoo_rows import check_rows, pack_rows, row_bytes_for, rows_of, unpack_rows

WIDTHS = {8: np.uint8, 12: np.uint16, 16: np.uint16, 24: np.uint32, 32: np.uint32}


@given(data=st.data(), bits=st.sampled_from(list(WIDTHS)), rows=st.integers(1, 4), slots=st.integers(0, 9), first=st.integers(0, 99))
def test_round_trip(data: st.DataObject, bits: int, rows: int, slots: int, first: int) -> None:
    numbers = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=rows * slots, max_size=rows * slots))
    cells = np.array(numbers, WIDTHS[bits]).reshape(rows, slots)
    packed = pack_rows(cells, bits, first)
    assert packed.shape == (rows, row_bytes_for(slots, bits))
    stored = rows_of(packed.tobytes(), row_bytes_for(slots, bits), rows, "run")
    check_rows(stored, np.arange(first, first + rows), "run")
    assert unpack_rows(stored, bits, slots).tolist() == cells.tolist()


def test_bytes_are_those_of_the_specification() -> None:
    """Fingerprint k has the bits from k * bits on, counted from the lowest bit of the first byte."""
    cells = np.array([[0xABC, 0x123, 0xDEF]], np.uint16)
    body = pack_rows(cells, 12, 0)[0, :-4].tobytes()
    assert int.from_bytes(body, "little") == 0xABC | 0x123 << 12 | 0xDEF << 24
    wide = np.array([[0xABCDEF, 0x123456]], np.uint32)
    assert pack_rows(wide, 24, 0)[0, :-4].tobytes() == bytes.fromhex("efcdab563412")
    assert pack_rows(np.array([[0x1234, 0x5678]], np.uint16), 16, 7)[0].tobytes().hex() == "34127856" + "eb8881d5"


@pytest.mark.parametrize("bits", WIDTHS)
def test_every_flipped_bit_is_seen(bits: int) -> None:
    cells = np.arange(1, 11).reshape(2, 5).astype(WIDTHS[bits])
    good = pack_rows(cells, bits, 3)
    for bit in range(8 * good.size):
        bad = good.copy().reshape(-1)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptError, match=f"bucket {3 + bit // 8 // good.shape[1]} "):
            check_rows(bad.reshape(good.shape), np.array([3, 4]), "run")


def test_a_row_of_another_bucket_is_seen() -> None:
    good = pack_rows(np.ones((2, 5), np.uint16), 16, 3)
    with pytest.raises(CorruptError, match="bucket 3"):
        check_rows(good[::-1].copy(), np.array([3, 4]), "run")


@pytest.mark.parametrize("cut", [0, 1, 27])
def test_rows_that_are_cut_off_are_seen(cut: int) -> None:
    data = pack_rows(np.ones((2, 5), np.uint16), 16, 0).tobytes()
    with pytest.raises(CorruptError, match="cut off"):
        rows_of(data[:cut], 14, 2, "run")
