"""What an upsert reads and writes, counted: keys of the granules that may hold them, and never more because the table is larger."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, Store, layered, open_store
from needlefish.store.meter import Usage
from needlefish.store.shapes import MEMORY
from needlefish.table.history import read_history
from needlefish.table.upsert.result import UpsertResult
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.faulty_store import FaultyStore
from needlefish.testing.tables import append_rows, build_table, scan_table

_numbers = count()
FILES = 1_000
FILE_ROWS = 200
GRANULE_ROWS = 50
UPDATES = 10_000
SCHEMA = "id int64, n int64, filler binary"
# A row that nobody should read: the keys of a granule are a hundredth of it.
FILLER_BYTES = 400
PROPERTIES = {"chunkset_rows": FILE_ROWS, "granule_rows": GRANULE_ROWS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one change asked the store for."""

    result: UpsertResult
    usage: Usage
    # Ranges and whole objects read, by the folder of what they are of.
    reads: dict[str, int]
    read_bytes: dict[str, int]


class Reads(FaultyStore):
    """Fails nothing, and counts the bytes of what is read by its place."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.bytes: dict[str, int] = {}
        self.requests: dict[str, int] = {}

    def get(self, path: str) -> bytes:
        return self._count(path, [super().get(path)])[0]

    def get_range(self, path: str, span: Any) -> bytes:
        return self._count(path, [super().get_range(path, span)])[0]

    def get_ranges(self, path: str, spans: Any) -> list[bytes]:
        return self._count(path, super().get_ranges(path, spans))

    def _count(self, path: str, pieces: list[bytes]) -> list[bytes]:
        place = "data" if path.startswith("data/") else path.split("/")[1]
        with self._lock:
            self.bytes[place] = self.bytes.get(place, 0) + sum(map(len, pieces))
            self.requests[place] = self.requests.get(place, 0) + len(pieces)
        return pieces


def rows_of(ids: Iterable[int], n: int) -> pa.Table:
    ids = np.fromiter(ids, np.int64)
    filler = np.random.default_rng(1).bytes(FILLER_BYTES * len(ids))
    cut = [filler[at : at + FILLER_BYTES] for at in range(0, len(filler), FILLER_BYTES)]
    return pa.table({"id": ids, "n": np.full(len(ids), n), "filler": pa.array(cut, pa.binary())})


def build(rows: int, store: RetriedStore, **options: Any) -> TableState:
    """Neighbours in key lie in one file, so that keys alone say which files may hold them."""
    return build_table(store, SCHEMA, "id", rows_of(range(rows), 0), properties={**PROPERTIES, **options.pop("properties", {})}, **options)


def fresh() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://upsert-work-{next(_numbers)}"))


def measured(store: RetriedStore, state: TableState, ids: Iterable[int], base: TableState | None = None) -> tuple[TableState, Work]:
    reads = Reads(store)
    counted = layered(reads, config=store.config, shape=MEMORY)
    state, result = upsert_table(counted, base or state, rows_of(ids, 1))
    return state, Work(result=result, usage=counted.meter.snapshot(), reads=reads.requests, read_bytes=reads.bytes)


@pytest.fixture(scope="module")
def scattered() -> Work:
    store = fresh()
    state = build(FILES * FILE_ROWS, store)
    assert state.totals.files == FILES
    ids = np.random.default_rng(7).choice(FILES * FILE_ROWS, UPDATES, replace=False)
    state, work = measured(store, state, ids)
    assert scan_table(store, state, columns=["id"], where="n = 1")[0].num_rows == UPDATES
    return work


def test_updates_all_over_a_table_read_keys_and_write_their_own_rows(scattered: Work) -> None:
    result = scattered.result
    assert (result.inserted, result.replaced, result.late) == (0, UPDATES, 0)
    # What is written: the updates, in as few files as they fill, and nothing of the thousand files they are scattered over.
    assert result.files == UPDATES // FILE_ROWS
    assert result.bytes < UPDATES * (FILLER_BYTES + 60) * 1.1
    assert scattered.usage.bytes_written < result.bytes * 1.3
    # What is read: of each granule the key column and its share of the footer, some 1,500 bytes, where the rows are 20,000.
    granules = FILES * FILE_ROWS // GRANULE_ROWS
    assert scattered.read_bytes["data"] < granules * 2_000
    assert scattered.read_bytes["data"] < FILES * FILE_ROWS * FILLER_BYTES / 10


def test_a_table_ten_times_larger_makes_no_difference() -> None:
    """The same updates, of keys that lie together: files that cannot hold them are not looked at."""
    works = []
    for rows in (20_000, 200_000):
        store = fresh()
        state = build(rows, store)
        works.append(measured(store, state, range(4_000, 6_000))[1])
    small, large = works
    assert small.result.replaced == large.result.replaced == 2_000
    assert large.reads["data"] == small.reads["data"]
    assert large.read_bytes["data"] == pytest.approx(small.read_bytes["data"], rel=0.01)
    assert large.usage.put.requests == small.usage.put.requests
    assert large.usage.bytes_written == pytest.approx(small.usage.bytes_written, rel=0.01)
    # Statistics and filters of ten times as many files are a few blocks more for each of the ten files that were written.
    assert small.result.files == large.result.files == 10
    assert large.usage.requests <= small.usage.requests + 5 * 10


def test_granules_that_cannot_hold_a_key_are_not_read() -> None:
    """One key in each of ten files: ten granules of two hundred, and what opening a file takes."""
    store = fresh()
    state = build(10_000, store, indexes=None)
    few = measured(store, state, range(100, 10_000, 1_000))[1]
    all_of_it = measured(store, state, range(10_000))[1]
    assert few.result.replaced == 10
    assert few.reads["data"] < all_of_it.reads["data"] / 3
    assert few.read_bytes["data"] < 10 * 8_000


def test_a_delete_writes_no_data() -> None:
    store = fresh()
    state = build(20_000, store)
    reads = Reads(store)
    counted = layered(reads, config=store.config, shape=MEMORY)
    after, result = delete_table(counted, state, [{"id": number} for number in range(0, 20_000, 40)])
    assert (result.deleted, result.absent, after.totals.files) == (500, 0, state.totals.files)
    assert not [call for call in reads.calls if call.kind == "put" and call.path.startswith("data/")]
    assert counted.meter.snapshot().bytes_written < 30_000


def test_healing_costs_what_the_other_has_committed() -> None:
    """A writer who meets a commit of ten rows reads the keys of those, however large the table and its own batch are."""
    store = fresh()
    base = build(40_000, store)
    alone = measured(fresh_copy := fresh(), build(40_000, fresh_copy), range(0, 40_000, 8))[1]
    append_rows(store, base, rows_of(range(50_000, 50_010), 5))
    behind = measured(store, base, range(0, 40_000, 8), base=base)[1]
    assert (alone.result.healed, behind.result.healed) == (0, 1)
    assert behind.result.replaced == alone.result.replaced == 5_000
    # The other's file lies beyond all keys of this one, and is not opened; its own keys are read once more at most.
    own = behind.result.files
    assert behind.reads["data"] - alone.reads["data"] <= 6 * own

    _, overlapping = _met(range(8, 88, 8))
    assert overlapping.result.healed == 1
    assert overlapping.reads["data"] - alone.reads["data"] <= 6 * own + 4


def _met(ids: Iterable[int]) -> tuple[TableState, Work]:
    store = fresh()
    base = build(40_000, store)
    other, _ = upsert_table(store, base, rows_of(ids, 5))
    state, work = measured(store, other, range(0, 40_000, 8), base=base)
    assert scan_table(store, state, where="n = 5")[0].num_rows == 0
    assert state.totals.visible_rows == 40_000
    assert [entry.action for entry in read_history(store, state)] == ["upsert", "upsert", "append", "create"]
    return state, work
