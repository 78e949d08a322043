"""Searching rows as they lie in the file: every width, both engines, the answers of a loop over the slots."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.filters.compiling import BUDGET, PRICE_NS
from needlefish.format.cuckoo_rows import pack_rows
from needlefish.index.cuckoo import BITS
from needlefish.index.cuckoo.search import search_row, search_rows

per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(BUDGET, "available", request.param == "compiled")
    monkeypatch.setattr(BUDGET, "spent_ns", PRICE_NS)
    return str(request.param)


@given(data=st.data(), bits=st.sampled_from(BITS), slots=st.integers(0, 12), rows=st.integers(1, 4))
@per_engine
def test_matches_are_those_of_a_loop(engine: str, data: st.DataObject, bits: int, slots: int, rows: int) -> None:
    # Few values, but with every byte and half a byte of a fingerprint in play.
    values = data.draw(st.lists(st.integers(1, 2**bits - 1), min_size=1, max_size=3))
    picked = data.draw(st.lists(st.sampled_from(values), min_size=rows * slots, max_size=rows * slots))
    cells = np.array(picked, np.uint32).reshape(rows, slots)
    packed = pack_rows(cells.astype(np.uint16) if bits == 12 else cells, bits, 0)
    asked = data.draw(st.lists(st.tuples(st.integers(0, rows - 1), st.sampled_from(values)), max_size=6))
    found = search_rows(
        packed, bits, slots, np.array([row for row, _ in asked], np.int64), np.array([each for _, each in asked], np.uint32)
    )
    expected = [(number, at) for number, (row, wanted) in enumerate(asked) for at in range(slots) if cells[row, at] == wanted]
    assert list(zip(found.questions.tolist(), found.positions.tolist(), strict=True)) == expected
    for row, wanted in asked:
        assert search_row(packed[row : row + 1], bits, slots, wanted).tolist() == np.flatnonzero(cells[row] == wanted).tolist()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("slots", [1_023, 1_024, 20_001])
def test_long_rows(engine: str, bits: int, slots: int) -> None:
    cells = np.random.default_rng(slots).integers(1, 2**bits, (1, slots)).astype(np.uint16 if bits == 12 else np.uint32)
    packed = pack_rows(cells, bits, 0)
    for wanted in cells[0, [0, 1, 500, -2, -1]].tolist():
        assert search_row(packed, bits, slots, wanted).tolist() == np.flatnonzero(cells[0] == wanted).tolist()
