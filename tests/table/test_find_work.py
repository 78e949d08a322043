"""Counted work: what a find over a thousand files reads, and how near its predictions come."""

import hashlib
from itertools import count

import pyarrow as pa
import pytest

from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.services.merge import tidy
from needlefish.store import RetriedStore, open_store
from needlefish.table.find import FindReceipt
from needlefish.table.snapshot import RunReaders
from needlefish.testing.faulty_store import FaultyStore
from needlefish.testing.tables import append_rows, build_table, find_table
from needlefish.timeline import read_newest

FILES = 1_000
ROWS = 24

_numbers = count()


def key(number: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://find-work-{next(_numbers)}"))


@pytest.fixture(scope="module")
def thousand() -> tuple[RetriedStore, TableState]:
    """A thousand files whose key ranges all overlap, of three granules each."""
    store = fresh_store()
    numbers = range(FILES * ROWS)
    rows = pa.table(
        {"id": [key(n) for n in numbers], "part": [n % FILES for n in numbers], "n": list(numbers), "note": [key(-n) for n in numbers]}
    )
    schema = "id string, part int64, n int64, note string"
    state = build_table(store, schema, "id", rows, partition_by=["part"], bloom_columns=["note"], properties={"granule_rows": 8})
    assert state.totals.files == FILES
    return store, state


def test_an_absent_key_opens_no_data_file(thousand: tuple[RetriedStore, TableState]) -> None:
    store, state = thousand
    found, receipt = find_table(store, state, id="8" * 32)
    assert found.num_rows == 0
    _, files, ranges, filters, data = receipt.levels
    assert (files.files_in, files.files_out, ranges.files_in, filters.files_in) == (FILES, FILES, FILES, ranges.files_out)
    assert ranges.files_out > 500, "the ranges overlap, so that filters have to decide"
    assert (filters.files_out, filters.unknown) == (0, 0)
    assert (data.files_in, data.requests, data.bytes_read, receipt.rows_read) == (0, 0, 0, 0)


@pytest.mark.parametrize("column", ["id", "note"])
def test_a_present_value_reads_one_granule_of_one_file(thousand: tuple[RetriedStore, TableState], column: str) -> None:
    store, state = thousand
    readers = RunReaders()
    for number in (0, 999, 12_345):
        value = key(number if column == "id" else -number)
        found, receipt = find_table(store, state, readers=readers, **{column: value})
        assert found["n"].to_pylist() == [number]
        data = receipt.level("data")
        assert (data.files_in, data.files_out, receipt.false_files) == (1, 1, 0)
        assert (receipt.granules_read, receipt.granules_pruned, receipt.rows_read) == (1, 2, 8)
        # The footer; the granules' filters where their ranges leave more than one; the columns of one granule.
        assert data.requests <= 1 + 2 * 3 + 4
        info_bytes = state.totals.bytes / FILES
        assert data.bytes_read < info_bytes, "less than the file"


def test_a_granule_is_what_is_read_beside_the_footer() -> None:
    """With granules of a real size the bytes are about one of them."""
    store = fresh_store()
    rows = pa.table({"id": [key(n) for n in range(40_000)], "n": list(range(40_000))})
    state = build_table(store, "id string, n int64", "id", rows, properties={"granule_rows": 4_000})
    found, receipt = find_table(store, state, id=key(77))
    assert found["n"].to_pylist() == [77]
    granule_bytes = state.totals.bytes / 10
    data = receipt.level("data")
    assert receipt.granules_read == 1
    assert 0.5 * granule_bytes < data.bytes_read < 1.5 * granule_bytes
    assert data.predicted_bytes / 2 < data.bytes_read < data.predicted_bytes * 2
    assert abs(data.predicted_requests - data.requests) <= 2


def test_opening_reads_no_footers(thousand: tuple[RetriedStore, TableState]) -> None:
    store, state = thousand
    watched = FaultyStore(store)
    assert read_newest(watched) == state
    assert [call.path for call in watched.calls if call.path.startswith(("data/", "_needlefish/metadata"))] == []
    assert len(watched.calls) == 2, "the hint, and the entry that does not exist yet"


def test_a_warm_handle_reads_no_header_twice(thousand: tuple[RetriedStore, TableState]) -> None:
    store, state = thousand
    readers = RunReaders()
    _, cold = find_table(store, state, readers=readers, id=key(5))
    _, warm = find_table(store, state, readers=readers, id=key(5))
    for name in ("files", "filters"):
        assert cold.level(name).requests - warm.level(name).requests == 1, "one run, one header"


def check_predictions(receipt: FindReceipt, factor: float) -> None:
    for level in receipt.levels:
        assert (level.predicted_requests > 0) == (level.requests > 0), level
        assert level.requests / factor <= level.predicted_requests <= level.requests * factor, level
        assert level.bytes_read / factor <= level.predicted_bytes <= level.bytes_read * factor, level


@pytest.mark.parametrize("values", [{"id": key(3)}, {"note": key(-3)}, {"n": 3}, {"part": 3}, {"id": [key(n) for n in range(50)]}])
def test_a_cold_find_costs_about_what_was_predicted(thousand: tuple[RetriedStore, TableState], values: dict[str, object]) -> None:
    store, state = thousand
    _, receipt = find_table(store, state, **values)
    assert receipt.requests > 0
    check_predictions(receipt, 4)


@pytest.mark.parametrize("values", [{"id": key(3)}, {"note": key(-3)}, {"n": 3}, {"part": 3}])
def test_with_the_headers_at_hand_the_index_levels_are_predicted_exactly(
    thousand: tuple[RetriedStore, TableState], values: dict[str, object]
) -> None:
    store, state = thousand
    readers = RunReaders()
    find_table(store, state, readers=readers, **values)
    _, receipt = find_table(store, state, readers=readers, **values)
    for name in ("files", "ranges", "filters"):
        level = receipt.level(name)
        assert (level.predicted_requests, level.predicted_bytes) == (level.requests, level.bytes_read), name


def test_large_filters_are_read_only_where_they_are() -> None:
    """A filter of this size has a block of its own, so that a run's index says whether it is there at all."""
    store = fresh_store()
    state = build_table(store, "id string, n int64", "id", properties={"file_bloom_probability": 1e-9})
    for commit in range(4):
        numbers = range(commit * 16_000, (commit + 1) * 16_000)
        state = append_rows(store, state, pa.table({"id": [key(n) for n in numbers], "n": list(numbers)}))
    found, receipt = find_table(store, state, id=key(20_000))
    assert found["n"].to_pylist() == [20_000]
    filters = receipt.level("filters")
    assert (filters.files_in, filters.files_out, filters.requests) == (4, 1, 8), "a header and the own filter of each run"


def test_many_commits_cost_a_find_few_requests() -> None:
    store = fresh_store()
    state = build_table(store, "id string, n int64", "id")
    for commit in range(60):
        rows = [{"id": key(n), "n": n} for n in range(commit * 5, commit * 5 + 5)]
        state = tidy(store, append_rows(store, state, rows))
    found, receipt = find_table(store, state, id=key(123))
    assert found["n"].to_pylist() == [123]
    runs = len(state.runs_of("files")) + len(state.runs_of("bloom_filters"))
    assert runs <= 24
    assert receipt.level("files").requests + receipt.level("filters").requests <= 2 * runs
    check_predictions(receipt, 4)
