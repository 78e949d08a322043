"""A warm handle: what it keeps saves requests, is bounded, and never changes an answer."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from needlefish.config import StoreConfig
from needlefish.format.files_record import decode_files, encode_files
from needlefish.format.run import IS_DELETED
from needlefish.index import newest
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM
from needlefish.services.merge import merge
from needlefish.store import RetriedStore, open_store
from needlefish.table import snapshot as snapshots
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.evolve import Changes, evolve
from needlefish.table.find import FindReceipt
from needlefish.table.snapshot import RunReaders, Snapshot
from needlefish.testing.tables import append_rows, build_table, find_table
from needlefish.timeline import Log, Proposal

ROWS = 400
COMMITS = 4

_numbers = count()


def key(number: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


def rows(commit: int) -> pa.Table:
    numbers = range(commit * ROWS, (commit + 1) * ROWS)
    return pa.table({"id": [key(n) for n in numbers], "n": list(numbers), "x": [n / 4 for n in numbers]})


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RetriedStore:
    return open_store(StoreConfig(uri=str(tmp_path) if request.param == "local" else f"memory://find-warm-{next(_numbers)}"))


@pytest.fixture
def states(store: RetriedStore) -> list[TableState]:
    """The table after each of four commits, of four files each."""
    properties = {"chunkset_rows": 100, "granule_rows": 32}
    found = [build_table(store, "id string, n int64, x double", "id", rows(0), indexes=None, properties=properties)]
    for commit in range(1, COMMITS):
        found.append(append_rows(store, found[-1], rows(commit)))
    return found


def numbers_at(store: RetriedStore, state: TableState, readers: RunReaders, wanted: list[int]) -> list[int]:
    found, _ = find_table(store, state, [key(n) for n in wanted], readers=readers)
    return sorted(found["n"].to_pylist())


def counts(receipt: FindReceipt) -> dict[str, int]:
    return {name: receipt.level(name).requests for name in ("index", "files", "data")}


def without(store: RetriedStore, state: TableState, gone: list[ChunksetInfo]) -> TableState:
    """A version in which these chunksets are tombstones; the index still knows them."""
    records = encode_files(gone)
    deleted = pa.array([True] * len(gone))
    records = records.set_column(records.schema.get_field_index(IS_DELETED), records.schema.field(IS_DELETED), deleted)
    run = put_run(store, "files", records, SYSTEM)
    return Log(store, "test", SYSTEM).append(state, lambda _: Proposal(action="rebuild", runs_added=(run,)))


def numbers_in(store: RetriedStore, state: TableState, info: ChunksetInfo) -> list[int]:
    rows = open_chunkset(store, state.definition, info).read(range(len(info.granules)), state.definition.schema.fields)
    return list(rows["n"].to_pylist())


def test_the_second_find_asks_neither_for_infos_nor_for_footers(store: RetriedStore, states: list[TableState]) -> None:
    readers = RunReaders()
    first, cold = find_table(store, states[-1], readers=readers, id=key(7))
    again, warm = find_table(store, states[-1], readers=readers, id=key(7))
    assert first["n"].to_pylist() == again["n"].to_pylist() == [7]
    # A header of each run, and its block unless the header shows that the key cannot be there.
    assert COMMITS < counts(cold)["files"] <= 2 * COMMITS
    assert (counts(cold)["index"] > 0, counts(cold)["data"]) == (True, 2)
    assert counts(warm) == {"index": 0, "files": 0, "data": 1}
    for level in (warm.level("files"), warm.level("data")):
        assert level.predicted_requests == level.requests
    assert warm.level("files").files_out == 1
    assert warm.granules_read == 1


def test_other_keys_find_kept_blocks(store: RetriedStore, states: list[TableState]) -> None:
    readers = RunReaders()
    _, cold = find_table(store, states[-1], readers=readers, id=key(7))
    requests = cold.level("files").requests
    for number in range(0, COMMITS * ROWS, 97):
        found, receipt = find_table(store, states[-1], readers=readers, id=key(number))
        assert found.to_pylist() == [{"id": key(number), "n": number, "x": number / 4}]
        files = receipt.level("files")
        assert files.requests == files.predicted_requests
        requests += files.requests
        assert counts(receipt)["data"] <= 2 * receipt.level("data").files_in
    assert requests <= 2 * COMMITS, "each run has a header and one block, read once by all the finds together"


def test_older_and_newer_versions_share_a_handle(store: RetriedStore, states: list[TableState]) -> None:
    readers = RunReaders()
    wanted = list(range(0, COMMITS * ROWS, 50))
    for state in [*states, *reversed(states), states[-1], states[0]]:
        commits = states.index(state) + 1
        for some in (wanted, wanted[::7]):
            assert numbers_at(store, state, readers, some) == [n for n in some if n < commits * ROWS]


def test_a_chunkset_that_is_gone_is_gone_from_what_is_kept(store: RetriedStore, states: list[TableState]) -> None:
    before = states[-1]
    readers = RunReaders()
    wanted = list(range(0, COMMITS * ROWS, 10))
    for number in wanted:
        assert numbers_at(store, before, readers, [number]) == [number]
    batches = newest.scan(store, Snapshot(store=store, state=before).runs("files"))
    infos = [info for batch in batches for info in decode_files(batch)]
    gone = infos[::3]
    after = without(store, before, gone)
    lost = {n for info in gone for n in numbers_in(store, before, info)}
    expected = [n for n in wanted if n not in lost]
    assert 0 < len(expected) < len(wanted)
    assert [n for n in wanted if numbers_at(store, after, readers, [n])] == expected
    missing = next(n for n in wanted if n not in expected)
    _, receipt = find_table(store, after, readers=readers, id=key(missing))
    assert receipt.level("files").requests == 0, "that it is gone is kept as well"
    assert (receipt.level("files").files_in, receipt.level("files").files_out) == (1, 0)
    assert numbers_at(store, before, readers, [missing]) == [missing], "the older version still has it"
    assert numbers_at(store, after, readers, [missing]) == []


def test_after_a_merge_and_a_change_of_columns_the_answers_stay(store: RetriedStore, states: list[TableState]) -> None:
    readers = RunReaders()
    wanted = list(range(0, COMMITS * ROWS, 30))
    state = states[-1]
    for commit in range(COMMITS, 9):
        state = append_rows(store, state, rows(commit))
    assert numbers_at(store, state, readers, wanted) == wanted
    merged = merge(store, state)
    assert len(merged.runs_of("files")) == 1
    assert [n for n in wanted if numbers_at(store, merged, readers, [n]) == [n]] == wanted
    widened = evolve(store, merged, Changes(add={"note": "string"}, drop=[], rename={"n": "number"}, widen={}, reorder=[]))
    found, receipt = find_table(store, widened, readers=readers, id=key(30))
    assert found.to_pylist() == [{"id": key(30), "number": 30, "x": 7.5, "note": None}]
    assert counts(receipt)["files"] == 0, "other columns, but the same `files` runs"


def test_what_a_handle_keeps_is_bounded(store: RetriedStore, states: list[TableState], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("_BLOCKS_BYTES", 20_000), ("_INFOS_BYTES", 5_000), ("_FOOTERS_BYTES", 50_000)):
        monkeypatch.setattr(snapshots, name, limit)
    readers = RunReaders()
    for number in range(0, COMMITS * ROWS, 20):
        assert numbers_at(store, states[-1], readers, [number]) == [number]
        assert 0 < readers.infos(states[-1]).held_bytes <= 5_000
        assert 0 < readers.footers.held_bytes <= 50_000
        assert readers._blocks.held_bytes <= 20_000
    assert len(readers.footers) < states[-1].totals.files


def test_threads_share_a_handle(store: RetriedStore, states: list[TableState]) -> None:
    """Half of them read an older version, so that what is kept changes hands all the time."""
    readers = RunReaders()

    def work(seed: int) -> int:
        state, limit = (states[-1], COMMITS * ROWS) if seed % 2 else (states[1], 2 * ROWS)
        wrong = 0
        for number in range(seed, COMMITS * ROWS, 37):
            wrong += numbers_at(store, state, readers, [number]) != ([number] if number < limit else [])
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [0] * 8


@pytest.mark.parametrize("column", ["n", "x"])
def test_columns_without_an_index_keep_footers_too(store: RetriedStore, states: list[TableState], column: str) -> None:
    readers = RunReaders()
    value = 101 if column == "n" else 101 / 4
    first, cold = find_table(store, states[-1], readers=readers, **{column: value})
    again, warm = find_table(store, states[-1], readers=readers, **{column: value})
    assert first["n"].to_pylist() == again["n"].to_pylist() == [101]
    data = warm.level("data")
    assert counts(cold)["data"] - data.requests == data.files_in, "a footer of each"
