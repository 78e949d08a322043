"""Row-key ranges: which rows they have, and which chunksets and granules are never touched for them."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, open_store
from needlefish.testing.tables import append_rows, build_table, scan_table

_numbers = count()


@pytest.fixture
def hundred(store: RetriedStore) -> TableState:
    """Keys k000 to k099 in ten chunksets of two granules."""
    rows = [{"id": f"k{number:03}", "n": number} for number in range(100)]
    return build_table(store, "id string, n int32", "id", rows, properties={"granule_rows": 5, "chunkset_rows": 10})


@pytest.mark.parametrize(
    ("key_range", "rows", "files", "granules"),
    [
        (None, 100, 10, 20),
        ((None, None), 100, 10, 20),
        (("k010", "k019"), 10, 1, 2),
        (("k010", "k014"), 5, 1, 1),
        (("k009", "k020"), 12, 3, 4),
        (("k05", "k06"), 10, 1, 2),
        (("k095", None), 5, 1, 1),
        ((None, "k000"), 1, 1, 1),
        ((("k010",), ["k010"]), 1, 1, 1),
        (("k020", "k010"), 0, 0, 0),
        (("a", "b"), 0, 0, 0),
        (("l", None), 0, 0, 0),
        (("k0105", "k0107"), 0, 1, 1),
        (("k0145", "k0147"), 0, 1, 0),
    ],
)
def test_a_range_reads_its_chunksets_only(
    store: RetriedStore, hundred: TableState, key_range: Any, rows: int, files: int, granules: int
) -> None:
    found, receipt = scan_table(store, hundred, key_range=key_range)
    assert (found.num_rows, receipt.files_read, receipt.granules_read) == (rows, files, granules)
    assert receipt.files_pruned_by_key == 10 - files
    assert receipt.rows_read == granules * 5


@pytest.mark.parametrize(
    ("where", "rows", "files"),
    [
        ("id = 'k042'", 1, 1),
        ("id IN ('k042', 'k077', 'x')", 2, 2),
        ("id >= 'k095' OR id < 'k001'", 6, 2),
        ("id LIKE 'k01%'", 10, 1),
        ("id LIKE 'k%5'", 10, 10),
        ("id IS NULL", 0, 0),
        ("id != 'k042'", 99, 10),
        ("id > 'k089' AND n < 95", 5, 1),
    ],
)
def test_predicates_on_the_leading_key_column_prune_too(
    store: RetriedStore, hundred: TableState, where: str, rows: int, files: int
) -> None:
    found, receipt = scan_table(store, hundred, where=where)
    assert (found.num_rows, receipt.files_read) == (rows, files)


def test_a_pruned_chunkset_costs_no_request(store: RetriedStore, hundred: TableState) -> None:
    apart = store.apart()
    scan_table(apart, hundred, key_range=("k010", "k014"), columns=["n"])
    usage = apart.meter.snapshot()
    # The run's header, its one block, the footer, and the pages of two columns of one granule.
    assert usage.get_range.requests == usage.requests <= 5


@pytest.mark.parametrize(
    ("key_range", "complaint"),
    [
        ("k010", "key_range is 'k010'; give a pair"),
        (("a",), r"key_range is \('a',\); give a pair"),
        (("a", "b", "c"), "give a pair"),
        (5, "key_range is 5"),
        ((5, None), "key_range, column 'id', is 5, which is no value of type string"),
        ((("a", "b"), None), r"key_range has an end \('a', 'b'\) of 2 values; the key is id"),
        (((), None), r"key_range has an end \(\) of 0 values"),
        (((None,), None), "key_range, column 'id', is None"),
    ],
)
def test_a_wrong_range_is_refused(store: RetriedStore, hundred: TableState, key_range: Any, complaint: str) -> None:
    with pytest.raises(InvalidError, match=complaint):
        scan_table(store, hundred, key_range=key_range)


_TEXTS = st.text(st.sampled_from("ab\x00\x01ÿ\U0001f41f"), max_size=3)
_NUMBERS = st.sampled_from([float("nan"), float("-inf"), -1.0, -0.0, 0.0, 0.5, float("inf")])


def _order(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Typed order: UTF-8 bytes for texts, NaN last, one zero."""
    return tuple(part.encode() if isinstance(part, str) else (part != part, 0.0 if part != part else part) for part in key)


@given(
    keys=st.lists(st.tuples(_TEXTS, _NUMBERS), min_size=1, max_size=20, unique_by=lambda key: repr(_order((key[0], key[1] + 0.0)))),
    low=st.none() | st.tuples(_TEXTS) | st.tuples(_TEXTS, _NUMBERS),
    high=st.none() | st.tuples(_TEXTS) | st.tuples(_TEXTS, _NUMBERS),
)
def test_composite_ranges_agree_with_python(
    keys: list[tuple[str, float]], low: tuple[Any, ...] | None, high: tuple[Any, ...] | None
) -> None:
    store = open_store(StoreConfig(uri=f"memory://table-key-range-{next(_numbers)}"))
    rows = [{"n": number, "x": x, "s": s} for number, (s, x) in enumerate(keys)]
    state = build_table(store, "n int32, x double, s string", ["s", "x"], rows[::2], properties={"granule_rows": 2, "chunkset_rows": 4})
    state = append_rows(store, state, rows[1::2])
    found, _ = scan_table(store, state, key_range=(low, high), columns=["n"])

    def inside(key: tuple[Any, ...]) -> bool:
        above = low is None or _order(key[: len(low)]) >= _order(low)
        return above and (high is None or _order(key[: len(high)]) <= _order(high))

    assert sorted(found["n"].to_pylist()) == [number for number, key in enumerate(keys) if inside(key)]


def test_keys_longer_than_the_file_list_keeps_are_still_found(store: RetriedStore) -> None:
    """First and last key are cut at 256 bytes and rounded outwards."""
    keys = ["a" * 255 + last for last in ("a", "b", "\U0010ffff")] + ["a" * 300, "a" * 255 + "\U0010ffff" * 20, "\U0010ffff" * 100]
    state = build_table(store, "id string", "id", [{"id": key} for key in keys], properties={"chunkset_rows": 1})
    for key in keys:
        for request in ({"key_range": (key, key)}, {"where": f"id = '{key}'"}, {"where": f"id >= '{key}' AND id <= '{key}'"}):
            found, receipt = scan_table(store, state, **request)
            assert found["id"].to_pylist() == [key]
            assert receipt.files_read <= 2
