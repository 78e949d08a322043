"""Finding fingerprints in rows: what a loop over the slots finds."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.filters.cuckoo_search import matches_in_row, matches_in_rows

per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
TYPES = [np.uint8, np.uint16, np.uint32]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("slots", [0, 1, 7, 511, 513, 5_000, 20_000, 50_003])
def test_one_row(engine: str, kind: type, slots: int) -> None:
    row = np.random.default_rng(slots).integers(0, 40, slots).astype(kind)
    for wanted in (3, 39, 200):
        assert matches_in_row(row, wanted).tolist() == [at for at, cell in enumerate(row.tolist()) if cell == wanted]


@given(data=st.data(), kind=st.sampled_from(TYPES), slots=st.integers(0, 30), rows=st.integers(1, 5))
@per_engine
def test_many_rows(engine: str, data: st.DataObject, kind: type, slots: int, rows: int) -> None:
    cells = np.array(data.draw(st.lists(st.integers(0, 4), min_size=rows * slots, max_size=rows * slots)), kind).reshape(rows, slots)
    asked = data.draw(st.lists(st.tuples(st.integers(0, rows - 1), st.integers(1, 4)), max_size=12))
    found = matches_in_rows(cells, np.array([row for row, _ in asked], np.int64), np.array([wanted for _, wanted in asked], np.uint32))
    expected = [(number, at) for number, (row, wanted) in enumerate(asked) for at in range(slots) if cells[row, at] == wanted]
    assert list(zip(found.questions.tolist(), found.positions.tolist(), strict=True)) == expected


def test_more_matches_than_expected(engine: str) -> None:
    cells = np.ones((2, 3_000), np.uint16)
    found = matches_in_rows(cells, np.array([1, 0]), np.array([1, 1], np.uint32))
    assert found.questions.tolist() == [0] * 3_000 + [1] * 3_000
    assert found.positions.tolist() == [*range(3_000), *range(3_000)]


def test_rows_in_memory_that_lies_wrong(engine: str) -> None:
    """As they do in a file: an odd row length leaves every second row at an odd place."""
    data = np.arange(4 * 21, dtype=np.uint8).reshape(4, 21)
    cells = data[:, :20].view("<u2")
    wanted = int(cells[3, 5])
    assert matches_in_rows(cells, np.array([3]), np.array([wanted], np.uint32)).positions.tolist() == [5]
    assert matches_in_row(cells[3], wanted).tolist() == [5]
