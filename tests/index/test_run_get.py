"""Reading one run: keys, prefixes and everything, each block once; as a dict has it."""

import random
from bisect import bisect_right
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError
from needlefish.format.metadata_key import column_key, file_key, hash64_part, hash128_part
from needlefish.format.run import encode_run, run_path
from needlefish.index.build import put_run
from needlefish.index.recent import Recent
from needlefish.index.run_reader import Blocks, RunReader
from needlefish.model.log import RunId, RunRef
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store

_numbers = count()


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://run-get-{next(_numbers)}"))


@pytest.fixture
def store() -> RetriedStore:
    return fresh_store()


def records(keys: list[str]) -> pa.Table:
    return pa.table({"key": keys, "is_deleted": [False] * len(keys), "value": pa.array(range(len(keys)), pa.int64())})


def put(store: RetriedStore, keys: list[str], block_records: int) -> RunRef:
    encoded = encode_run("files", records(keys), block_records)
    ref = RunRef(
        id=RunId("r"),
        kind="files",
        bytes=len(encoded.data),
        header_bytes=encoded.header_bytes,
        header_checksum=encoded.header_checksum,
        records=encoded.records,
    )
    store.put(run_path("files", ref.id), encoded.data)
    return ref


def found(batches: object) -> list[tuple[str, int]]:
    return [(row["key"], row["value"]) for batch in batches for row in batch.to_pylist()]  # type: ignore[attr-defined]


def test_keys_are_those_of_hudi() -> None:
    file = "8aa68f7e-afd6-4c94-b86c-8a886552e08d-0_2-1112-3192_20251220210129235.parquet"
    assert column_key("driver", "city=sao_paulo", file) == "AjpJ7N1gBZc=6Hj+sBy+gvM=0VV0SYFvRHPGdIGkp/dZ+A=="
    assert file_key("city=sao_paulo", file) == "6Hj+sBy+gvM=0VV0SYFvRHPGdIGkp/dZ+A=="
    assert hash128_part(file) == "0VV0SYFvRHPGdIGkp/dZ+A=="
    for text, part in {
        "Data lake": "FzR/yAiNjqo=",
        "Col1": "lrvBsK3GVg0=",
        "2021/10/28/": "aUHW9f64I1o=",
        "_hoodie_record_key": "uSJGdDiVr/k=",
    }.items():
        assert hash64_part(text) == part


def test_thousands_of_keys_read_each_block_once(store: RetriedStore) -> None:
    keys = sorted(file_key(f"p={number % 7}", f"{number}.parquet") for number in range(20_000))
    reader = RunReader(put_run(store, "files", records(keys), SYSTEM))
    header = reader.header(store)[0]
    wanted = keys[::4] + [file_key("p=9", f"{number}.parquet") for number in range(1_000)]
    reads = store.apart()
    assert found(reader.get(reads, wanted)) == [(key, place) for place, key in enumerate(keys) if place % 4 == 0]
    usage = reads.meter.snapshot()
    assert usage.get_range.requests == len(header.first_keys)
    assert usage.bytes_read == header.offsets[-1]


def test_few_keys_read_few_blocks(store: RetriedStore) -> None:
    keys = [f"k{number:05}" for number in range(10_000)]
    reader = RunReader(put_run(store, "files", records(keys), SYSTEM))
    reads = store.apart()
    reader.header(reads)
    before = reads.meter.snapshot()
    assert found(reader.get(reads, ["k00000", "k00001", "k09999", "k05000x", "a"])) == [("k00000", 0), ("k00001", 1), ("k09999", 9_999)]
    assert (reads.meter.snapshot() - before).requests == 3, "two keys share a block, one is not there, one is before the first"
    again = reads.meter.snapshot()
    assert found(reader.get(reads, ["a"])) == []
    assert (reads.meter.snapshot() - again).requests == 0


def test_a_kept_block_is_no_request(store: RetriedStore) -> None:
    keys = [f"k{number:05}" for number in range(2_000)]
    ref = put_run(store, "files", records(keys), SYSTEM)
    blocks: Blocks = Recent(1 << 20)
    reader = RunReader(ref, blocks)
    reader.header(store)
    for wanted, requests in ((["k00000"], 1), (["k00001", "k00300"], 1), (["k00002", "k00301", "k00999", "x"], 2), (["k00003"], 0)):
        reads = store.apart()
        expected = reader.expected_of_get(wanted)
        assert found(reader.get(reads, wanted)) == [(key, int(key[1:])) for key in wanted if key in keys]
        assert (expected.requests, expected.bytes) == (reads.meter.snapshot().requests, reads.meter.snapshot().bytes_read)
        assert expected.requests == requests, wanted
    many = keys[::256]
    reads = store.apart()
    assert found(reader.get(reads, many[:8])) == [(key, int(key[1:])) for key in many]
    assert len(blocks) == 8, "eight keys are few"


def test_many_keys_push_nothing_out(store: RetriedStore) -> None:
    keys = [f"k{number:05}" for number in range(5_000)]
    blocks: Blocks = Recent(1 << 20)
    reader = RunReader(put_run(store, "files", records(keys), SYSTEM), blocks)
    assert found(reader.get(store, keys[::10])) == [(key, int(key[1:])) for key in keys[::10]]
    assert len(blocks) == 0


def test_kept_blocks_are_bounded(store: RetriedStore) -> None:
    keys = [f"k{number:05}" for number in range(5_000)]
    blocks: Blocks = Recent(20_000)
    reader = RunReader(put_run(store, "files", records(keys), SYSTEM), blocks)
    for key in keys[::100]:
        assert found(reader.get(store, [key])) == [(key, int(key[1:]))]
        assert 0 < blocks.held_bytes <= 20_000


def test_a_prefix_reads_its_blocks_alone(store: RetriedStore) -> None:
    groups = sorted(hash64_part(f"column {number}") for number in range(8))
    keys = [f"{group}{number:05}" for group in groups for number in range(1_000)]
    reader = RunReader(put_run(store, "files", records(keys), SYSTEM))
    header = reader.header(store)[0]
    reads = store.apart()
    assert found(reader.with_prefixes(reads, [groups[3]])) == [(keys[n], n) for n in range(3_000, 4_000)]
    assert reads.meter.snapshot().requests <= -(-1_000 // 256) + 1
    assert len(header.first_keys) == -(-8_000 // 256)


_key = st.text(alphabet="abc", min_size=1, max_size=4)


@given(
    keys=st.sets(_key, max_size=40),
    wanted=st.lists(_key, max_size=12),
    prefixes=st.lists(st.text(alphabet="abc", max_size=3), max_size=4),
    block=st.integers(1, 9),
)
def test_as_a_dict_has_it(keys: set[str], wanted: list[str], prefixes: list[str], block: int) -> None:
    store = fresh_store()
    ordered = sorted(keys)
    reader = RunReader(put(store, ordered, block))
    everything = list(zip(ordered, range(len(ordered)), strict=True))
    assert found(reader.scan(store)) == everything
    begun = tuple(prefixes)
    assert found(reader.with_prefixes(store, prefixes)) == [pair for pair in everything if begun and pair[0].startswith(begun)]
    reads = store.apart()
    expected = reader.expected_of_get(wanted)
    assert found(reader.get(reads, wanted)) == [pair for pair in everything if pair[0] in wanted]
    starts = ordered[::block]
    needed = {place for key in wanted if (place := bisect_right(starts, key) - 1) >= 0}
    assert expected.requests == reads.meter.snapshot().requests <= len(needed)


def test_blocks_of_one_record_are_read_only_when_they_are_wanted(store: RetriedStore) -> None:
    ref = put(store, ["b", "d", "f"], 1)
    reader = RunReader(ref)
    reader.header(store)
    reads = store.apart()
    assert found(reader.get(reads, ["a", "c", "d", "e", "g"])) == [("d", 1)]
    assert reads.meter.snapshot().requests == 1


def test_memory_holds_a_few_blocks_of_large_records(store: RetriedStore) -> None:
    """A call asks for 4 MiB at most, unless one record is larger."""
    noise = random.Random(1)
    keys = [f"k{number:02}" for number in range(24)]
    table = records(keys).append_column("filter", pa.array([noise.randbytes(1_000_000) for _ in keys]))
    reader = RunReader(put_run(store, "bloom_filters", table, SYSTEM))
    sizes: list[int] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def get_ranges(self, path: str, spans: list[object]) -> list[bytes]:
            data = store.get_ranges(path, spans)  # type: ignore[arg-type]
            sizes.append(sum(map(len, data)))
            return data

    assert len(found(reader.scan(Watched()))) == 24  # type: ignore[arg-type]
    assert max(sizes) <= 4 * 1024 * 1024
    assert len(sizes) == 1 + 6, "the header and four records at a time"


@pytest.mark.parametrize("place", ["header", "block"])
def test_a_flipped_bit_is_seen(store: RetriedStore, place: str) -> None:
    ref = put(store, [f"k{number:03}" for number in range(100)], 10)
    path = run_path("files", ref.id)
    data = bytearray(store.get(path))
    header = RunReader(ref).header(store)[0]
    at = 30 if place == "header" else ref.header_bytes + header.offsets[4] + 20
    data[at] ^= 4
    store.put(path, bytes(data))
    reader = RunReader(ref)
    with pytest.raises(CorruptError, match=place):
        found(reader.get(store, ["k045"]))
    if place == "block":
        assert found(reader.get(store, ["k035", "k055"])) == [("k035", 35), ("k055", 55)], "the other blocks are whole"


def test_any_arrow_reader_can_open_a_run(store: RetriedStore) -> None:
    table = records([f"k{number:04}" for number in range(1_000)])
    ref = put_run(store, "files", table, SYSTEM)
    with pa.ipc.open_file(pa.py_buffer(store.get(run_path("files", ref.id)))) as file:
        assert file.read_all().replace_schema_metadata(None).equals(table)
        assert file.num_record_batches == 4


@pytest.mark.parametrize(("rows", "record_bytes"), [(3, 10), (5_000, 10), (2_000, 400), (300, 5_000), (40, 100_000)])
def test_what_reading_will_cost_is_known_before_the_header_is(store: RetriedStore, rows: int, record_bytes: int) -> None:
    noise = random.Random(2)
    keys = sorted(hash128_part(str(number)) for number in range(rows))
    table = records(keys).append_column("filter", pa.array([noise.randbytes(record_bytes) for _ in keys]))
    ref = put_run(store, "bloom_filters", table, SYSTEM)
    some, prefix = keys[:: max(1, rows // 7)], [keys[rows // 2][0]]
    asked = {
        "scan": (RunReader(ref).expected_of_scan(), lambda reader, reads: reader.scan(reads)),
        "get": (RunReader(ref).expected_of_get(some), lambda reader, reads: reader.get(reads, some)),
        "prefix": (RunReader(ref).expected_of_prefixes(prefix, 1 / 64), lambda reader, reads: reader.with_prefixes(reads, prefix)),
    }
    for name, (expected, read) in asked.items():
        reads = store.apart()
        found(read(RunReader(ref), reads))
        usage = reads.meter.snapshot()
        assert usage.requests / 2 <= expected.requests <= usage.requests * 2, name
        assert usage.bytes_read / 2 <= expected.bytes <= usage.bytes_read * 2, name
