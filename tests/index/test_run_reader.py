"""Lookups in runs: the records that a dictionary would find, from the blocks they need and no more."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError
from needlefish.format.run import encode_run, run_path
from needlefish.index import newest, run_reader
from needlefish.index.run_reader import RunReader
from needlefish.model.log import RunId, RunRef
from needlefish.store import RetriedStore, open_store


@pytest.fixture(scope="module", autouse=True)
def _blocks_matter() -> Iterator[None]:
    """Small runs stand for large ones here: none comes whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_reader, "WHOLE_BYTES", 0)
        yield


_numbers = count()
_SCHEMA = pa.schema(
    [pa.field("key", pa.string(), nullable=False), pa.field("is_deleted", pa.bool_(), nullable=False), ("value", pa.int64())]
)
# None is a tombstone.
Records = Mapping[str, int | None]

_KEYS = st.text("ab+/=", min_size=1, max_size=4)
_RECORDS = st.dictionaries(_KEYS, st.none() | st.integers(0, 99), max_size=20)


def _fresh() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://index-runs-{next(_numbers)}"))


def _put(store: RetriedStore, records: Records, block_records: int = 3) -> RunReader:
    rows = [{"key": key, "is_deleted": value is None, "value": value} for key, value in sorted(records.items())]
    encoded = encode_run("files", pa.Table.from_pylist(rows, schema=_SCHEMA), block_records)
    run_id = RunId(f"run-{next(_numbers)}")
    store.put(run_path("files", run_id), encoded.data)
    return RunReader(
        RunRef(
            id=run_id,
            kind="files",
            bytes=len(encoded.data),
            header_bytes=encoded.header_bytes,
            header_checksum=encoded.header_checksum,
            records=encoded.records,
        )
    )


def _pairs(batches: Iterable[pa.RecordBatch]) -> list[tuple[str, Any]]:
    return [(row["key"], row["value"]) for batch in batches for row in batch.to_pylist()]


@given(records=_RECORDS, prefixes=st.lists(st.text("ab+/=", max_size=4), max_size=6), block_records=st.integers(1, 5))
def test_prefixes_find_what_a_dictionary_finds(records: Records, prefixes: list[str], block_records: int) -> None:
    store = _fresh()
    reader = _put(store, records, block_records)
    wanted = [(key, value) for key, value in sorted(records.items()) if any(key.startswith(prefix) for prefix in prefixes)]
    assert _pairs(reader.with_prefixes(store, prefixes)) == wanted
    assert _pairs(reader.scan(store)) == sorted(records.items())


@given(runs=st.lists(_RECORDS, max_size=4), prefixes=st.lists(st.text("ab+/=", max_size=3), max_size=4))
def test_the_newest_record_of_each_key_wins(runs: list[Records], prefixes: list[str]) -> None:
    store = _fresh()
    readers = [_put(store, records) for records in runs]
    merged: dict[str, int | None] = {}
    for records in reversed(runs):
        merged |= records
    live = sorted((key, value) for key, value in merged.items() if value is not None)
    assert _pairs(newest.scan(store, readers)) == live
    wanted = [(key, value) for key, value in live if any(key.startswith(prefix) for prefix in prefixes)]
    assert _pairs(newest.with_prefixes(store, readers, prefixes)) == wanted


@pytest.fixture
def hundred() -> tuple[RetriedStore, RunReader]:
    """Keys a00 to j09 in ten blocks of ten."""
    store = _fresh()
    reader = _put(store, {f"{letter}{number:02}": number for letter in "abcdefghij" for number in range(10)}, block_records=10)
    return store, reader


@pytest.mark.parametrize(
    ("prefixes", "records", "blocks"),
    [
        (["c05"], 1, [2]),
        (["c00"], 1, [2]),
        (["c"], 10, [1, 2]),
        (["a"], 10, [0]),
        (["c05", "c06", "c07"], 3, [2]),
        (["c05", "h05"], 2, [2, 7]),
        (["c05", "c0", "c"], 10, [1, 2]),
        (["zz"], 0, [9]),
        (["A"], 0, []),
        ([], 0, []),
    ],
)
def test_only_the_blocks_that_may_hold_a_prefix_are_read(
    hundred: tuple[RetriedStore, RunReader], prefixes: list[str], records: int, blocks: list[int]
) -> None:
    store, reader = hundred
    header, _ = reader.header(store)
    apart = store.apart()
    assert len(_pairs(reader.with_prefixes(apart, prefixes))) == records
    usage = apart.meter.snapshot()
    assert usage.get_range.requests == usage.requests == len(blocks)
    assert usage.bytes_read == sum(header.offsets[block + 1] - header.offsets[block] for block in blocks)


def test_the_header_is_read_once(hundred: tuple[RetriedStore, RunReader]) -> None:
    store, reader = hundred
    apart = store.apart()
    for _ in range(3):
        list(reader.with_prefixes(apart, ["c05"]))
    usage = apart.meter.snapshot()
    assert usage.get_range.requests == 1 + 3


def test_a_scan_reads_every_block_once(hundred: tuple[RetriedStore, RunReader]) -> None:
    store, reader = hundred
    header, _ = reader.header(store)
    apart = store.apart()
    assert len(_pairs(reader.scan(apart))) == 100
    assert apart.meter.snapshot().bytes_read == header.offsets[-1]


def test_a_scan_of_a_large_run_holds_some_blocks_at_a_time() -> None:
    store = _fresh()
    reader = _put(store, {f"{number:06}": number for number in range(1_000)}, block_records=2)
    reader.header(store)
    apart = store.apart()
    batches = reader.scan(apart)
    next(batches)
    assert apart.meter.snapshot().get_range.requests == 64
    assert len(list(batches)) == 499


def test_damage_raises_and_never_hides_a_record(hundred: tuple[RetriedStore, RunReader]) -> None:
    store, reader = hundred
    path = run_path("files", reader.ref.id)
    header, _ = reader.header(store)
    whole = store.get(path)
    at = reader.ref.header_bytes + header.offsets[2] + 30
    store.put(path, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert _pairs(reader.with_prefixes(store, ["h05"])) == [("h05", 5)]
    with pytest.raises(CorruptError, match=f"{path}: block 2"):
        list(reader.with_prefixes(store, ["c05"]))
    with pytest.raises(CorruptError, match=path):
        list(RunReader(reader.ref).scan(store))
    store.put(path, whole[: reader.ref.header_bytes - 1])
    with pytest.raises(CorruptError, match=f"{path}: the header"):
        RunReader(reader.ref).header(store)
    store.delete([path])
    with pytest.raises(CorruptError, match=f"{path}: missing"):
        list(reader.scan(store))


def test_runs_are_started_together_and_charged_to_who_asks() -> None:
    store = _fresh()
    readers = [_put(store, {f"k{number}": number}) for number in range(5)]
    apart = store.apart()
    assert len(_pairs(newest.with_prefixes(apart, readers, ["k"]))) == 5
    # A header and a block of each.
    assert apart.meter.snapshot().requests == 10
    assert store.meter.snapshot().get_range.requests == 0
