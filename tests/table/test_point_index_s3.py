"""What a find through a point index asks an object store for, as the server counts it: the budget of a cold handle."""

from typing import Any

import pyarrow as pa
import pytest

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.format.run import path_of
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, open_store
from needlefish.testing.s3 import S3Server
from needlefish.testing.tables import append_rows, build_table

RUNS = 3
EACH = 12_000


def key(number: int) -> str:
    return f"{number * 2_654_435_761 % 2**32:08x}"


def rows(first: int, end: int) -> pa.Table:
    numbers = range(first, end)
    return pa.table({"id": [key(n) for n in numbers], "n": list(numbers), "host": [f"h{n % 5}" for n in numbers]})


@pytest.fixture(scope="module")
def table(s3: S3Server) -> tuple[S3Server, str, TableState]:
    """Three commits of 30 files each; the runs of postings are larger than what a reader takes whole."""
    store: RetriedStore = open_store(StoreConfig(uri=f"s3://{s3.bucket}/point-index", options=s3.options))
    indexes = [nf.PointIndex("id"), nf.PointIndex("n", kind="cuckoo", bits=16)]
    properties = {"granule_rows": 200, "chunkset_rows": 400}
    state = build_table(store, "id string, n int64, host string", "id", indexes=indexes, properties=properties)
    for number in range(RUNS):
        state = append_rows(store, state, rows(number * EACH, (number + 1) * EACH))
    assert all(run.bytes > 16 * 1024 for run in state.runs_of("index/id"))
    return s3, store.uri, state


def cold_find(table: tuple[S3Server, str, TableState], **values: Any) -> tuple[nf.api.Found, int]:
    """A find of a handle that has just been opened, and the requests that the server saw of it."""
    server, uri, _ = table
    handle = nf.Table.open(uri, storage_options=server.options)
    before = server.requests()
    found = handle.find(**values)
    return found, server.requests() - before


def test_a_cold_find_stays_in_the_budget(table: tuple[S3Server, str, TableState]) -> None:
    for number in (0, 5_000, EACH, 3 * EACH - 1):
        found, requests = cold_find(table, id=key(number))
        assert [row["n"] for row in found.to_pylist()] == [number]
        index, files, ranges, filters, data = found.receipt.levels
        assert requests == found.receipt.requests, "the receipt counts what the server counts"
        assert index.requests <= 2 * RUNS + 1, "a stretch of directory and a page of each run, and the name of the granule"
        assert index.bytes_read <= 16 * 1024 * RUNS
        assert (ranges.requests, filters.requests) == (0, 0)
        assert (data.files_in, found.receipt.granules_read) == (1, 1)


def test_an_absent_value_asks_each_run_twice_and_reads_nothing_else(table: tuple[S3Server, str, TableState]) -> None:
    for number in range(8):
        found, requests = cold_find(table, id=f"absent{number}")
        assert len(found) == 0
        assert requests == found.receipt.level("index").requests <= 2 * RUNS
        assert found.receipt.bytes_read <= 16 * 1024 * RUNS


def test_a_warm_find_asks_each_run_once_at_most(table: tuple[S3Server, str, TableState]) -> None:
    server, uri, _ = table
    handle = nf.Table.open(uri, storage_options=server.options)
    for number in range(40):
        handle.find(id=key(number * 700))
    before = server.requests()
    for number in range(20):
        assert len(handle.find(id=f"absent{number}")) == 0
    assert server.requests() - before <= 20 * RUNS


def test_cuckoo_rows_are_read_in_few_requests(table: tuple[S3Server, str, TableState]) -> None:
    found, requests = cold_find(table, n=EACH + 7)
    assert [row["n"] for row in found.to_pylist()] == [EACH + 7]
    index = found.receipt.level("index")
    assert requests == found.receipt.requests
    assert index.requests <= 3 * RUNS + 1, "two rows and the filter table of each run, and the name of the granule"
    sizes = [run.bytes for run in table[2].runs_of("index/n")]
    assert index.bytes_read < sum(sizes) / 4


def test_small_runs_are_read_whole_in_one_request(s3: S3Server) -> None:
    store = open_store(StoreConfig(uri=f"s3://{s3.bucket}/point-index-small", options=s3.options))
    state = build_table(store, "id string, n int64, host string", "id", rows(0, 500), indexes=None)
    state = append_rows(store, state, rows(500, 1_000))
    assert {len(state.runs_of("index/id")), *(path_of(run).count("index/id") for run in state.runs_of("index/id"))} == {2, 1}
    found, requests = cold_find((s3, store.uri, state), id=key(700))
    assert len(found) == 1
    assert found.receipt.level("index").requests == 2
    assert requests == found.receipt.requests
