"""Merging runs: one record for each key, as a dict folded in the order of versions has it."""

from collections.abc import Iterator
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError
from needlefish.format.run import run_path
from needlefish.index import newest, run_reader
from needlefish.index.build import put_run
from needlefish.index.combine import or_bitmaps
from needlefish.index.merge import merge_runs
from needlefish.index.run_reader import RunReader
from needlefish.model.log import RunRef
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store


@pytest.fixture(scope="module", autouse=True)
def _blocks_matter() -> Iterator[None]:
    """Small runs stand for large ones here: none comes whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_reader, "WHOLE_BYTES", 0)
        yield


SCHEMA = pa.schema([("key", pa.string()), ("is_deleted", pa.bool_()), ("value", pa.int64())])
SKIPS = pa.schema([("key", pa.string()), ("is_deleted", pa.bool_()), ("skips", pa.binary())])

# A value, or None for a tombstone.
Run = dict[str, int | None]

_numbers = count()


@pytest.fixture
def store() -> RetriedStore:
    return fresh_store()


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://merge-{next(_numbers)}"))


def put(store: RetriedStore, run: Run, version: int) -> RunRef:
    rows = [{"key": key, "is_deleted": run[key] is None, "value": run[key]} for key in sorted(run)]
    return put_run(store, "files", pa.Table.from_pylist(rows, schema=SCHEMA), SYSTEM, version)


def put_all(store: RetriedStore, runs: list[Run]) -> list[RunRef]:
    """Oldest first in, newest first out."""
    return [put(store, run, version) for version, run in enumerate(runs, 1)][::-1]


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[tuple[str, bool, int | None]]:
    return [(row["key"], row["is_deleted"], row["value"]) for batch in batches for row in batch.to_pylist()]


def folded(runs: list[Run]) -> Run:
    result: Run = {}
    for run in runs:
        result |= run
    return result


def expected(runs: list[Run], *, tombstones: bool) -> list[tuple[str, bool, int | None]]:
    return [(key, value is None, value) for key, value in sorted(folded(runs).items()) if tombstones or value is not None]


_keys = st.integers(0, 40).map(lambda number: f"k{number:03}")
_runs = st.lists(st.dictionaries(_keys, st.none() | st.integers(0, 99), max_size=30), min_size=1, max_size=6)


@given(runs=_runs, drop=st.booleans())
def test_a_merged_run_says_what_its_inputs_say(runs: list[Run], drop: bool) -> None:
    store = fresh_store()
    refs = put_all(store, runs)
    result = merge_runs(store, "files", refs, SYSTEM, drop_tombstones=drop)
    assert rows_of(RunReader(result).scan(store)) == expected(runs, tombstones=not drop)
    assert (result.version, result.records) == (len(runs), len(expected(runs, tombstones=not drop)))
    assert rows_of(newest.scan(store, [RunReader(ref) for ref in refs])) == expected(runs, tombstones=False)


@given(runs=_runs, cut=st.integers(0, 6))
def test_merging_the_newest_leaves_the_whole_as_it_was(runs: list[Run], cut: int) -> None:
    store = fresh_store()
    refs = put_all(store, runs)
    cut = min(max(cut, 1), len(refs))
    result = merge_runs(store, "files", refs[:cut], SYSTEM, drop_tombstones=cut == len(refs))
    assert rows_of(newest.scan(store, [RunReader(ref) for ref in [result, *refs[cut:]]])) == expected(runs, tombstones=False)


def test_a_tombstone_stays_while_something_older_is_outside(store: RetriedStore) -> None:
    oldest, *newer = put_all(store, [{"a": 1, "b": 1}, {"a": None}, {"c": 3}])[::-1]
    kept = merge_runs(store, "files", newer[::-1], SYSTEM, drop_tombstones=False)
    assert rows_of(newest.scan(store, [RunReader(kept), RunReader(oldest)])) == [("b", False, 1), ("c", False, 3)]
    lost = merge_runs(store, "files", newer[::-1], SYSTEM, drop_tombstones=True)
    assert ("a", False, 1) in rows_of(newest.scan(store, [RunReader(lost), RunReader(oldest)])), "why it must stay"


def test_many_blocks_merge_as_a_stream(store: RetriedStore) -> None:
    runs: list[Run] = [{f"k{number:06}": version for number in range(version, 6_000, 1 + version)} for version in range(5)]
    refs = put_all(store, runs)
    reads = store.apart()
    result = merge_runs(reads, "files", refs, SYSTEM, drop_tombstones=True)
    assert rows_of(RunReader(result).scan(store)) == expected(runs, tombstones=False)
    assert reads.meter.snapshot().get_range.requests == sum(1 + len(RunReader(ref).header(store)[0].first_keys) for ref in refs)
    header = RunReader(result).header(store)[0]
    assert 6_000 / 256 <= len(header.first_keys) <= 6_000 / 256 * 1.5, "blocks stay full"


def test_large_records_have_blocks_of_their_own(store: RetriedStore) -> None:
    schema = pa.schema([("key", pa.string()), ("is_deleted", pa.bool_()), ("filter", pa.binary())])
    noise = [bytes([number]) * 100_000 for number in range(24)]
    refs = []
    for version in range(3):
        rows = [{"key": f"k{n:02}", "is_deleted": False, "filter": noise[n]} for n in range(version, 24, 3)]
        refs.append(put_run(store, "bloom_filters", pa.Table.from_pylist(rows, schema=schema), SYSTEM, version + 1))
    result = merge_runs(store, "bloom_filters", refs[::-1], SYSTEM, drop_tombstones=True)
    assert len(RunReader(result).header(store)[0].first_keys) == 24
    found = [row for batch in RunReader(result).get(store, ["k07", "k08", "nope"]) for row in batch.to_pylist()]
    assert [(row["key"], row["filter"]) for row in found] == [("k07", noise[7]), ("k08", noise[8])]


def test_runs_of_an_older_writer_have_nulls_in_younger_columns(store: RetriedStore) -> None:
    old = pa.table({"key": ["a", "c"], "is_deleted": [False, False], "value": [1, 1]})
    young = pa.table({"key": ["b", "c"], "is_deleted": [False, False], "value": [2, 2], "more": ["x", "y"]})
    refs = [put_run(store, "files", young, SYSTEM, 2), put_run(store, "files", old, SYSTEM, 1)]
    result = merge_runs(store, "files", refs, SYSTEM, drop_tombstones=True)
    rows = [row for batch in RunReader(result).scan(store) for row in batch.to_pylist()]
    assert [(row["key"], row["value"], row["more"]) for row in rows] == [("a", 1, None), ("b", 2, "x"), ("c", 2, "y")]


@given(runs=st.lists(st.dictionaries(_keys, st.none() | st.sets(st.integers(0, 2**20), max_size=20), max_size=12), min_size=1, max_size=5))
def test_skips_merge_by_or(runs: list[dict[str, set[int] | None]]) -> None:
    store = fresh_store()
    wanted: dict[str, set[int] | None] = {}
    refs = []
    for version, run in enumerate(runs, 1):
        # A deleted key never comes back.
        alive = {key: value for key, value in run.items() if key not in wanted or wanted[key] is not None}
        for key, value in alive.items():
            wanted[key] = None if value is None else (wanted.get(key) or set()) | value
        rows = [
            {"key": key, "is_deleted": value is None, "skips": None if value is None else BitMap(value).serialize()}
            for key, value in sorted(alive.items())
        ]
        refs.append(put_run(store, "skips", pa.Table.from_pylist(rows, schema=SKIPS), SYSTEM, version))
    combine = or_bitmaps("skips")
    whole = merge_runs(store, "skips", refs[::-1], SYSTEM, drop_tombstones=True, combine=combine)
    upper = refs[len(refs) // 2 :][::-1]
    part = merge_runs(store, "skips", upper, SYSTEM, drop_tombstones=False, combine=combine)
    lower = refs[: len(refs) // 2][::-1]
    expect = {key: value for key, value in sorted(wanted.items()) if value is not None}
    for readers in ([whole], [part, *lower], refs[::-1]):
        batches = newest.scan(store, [RunReader(ref) for ref in readers], combine)
        assert {row["key"]: set(BitMap.deserialize(row["skips"])) for batch in batches for row in batch.to_pylist()} == expect


def test_a_damaged_input_stops_the_merge(store: RetriedStore) -> None:
    refs = put_all(store, [{"a": 1}, {"b": 2}])
    path = run_path("files", refs[0].id)
    data = store.get(path)
    place = refs[0].header_bytes + 40
    store.put(path, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(CorruptError, match="block 0"):
        merge_runs(store, "files", refs, SYSTEM, drop_tombstones=True)
