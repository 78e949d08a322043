"""Reading filters over a store: which requests it takes, what a footer may leave out, and what damage does."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError, InvalidError, NeedlefishError, NotFoundError, UnsupportedError
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.bloom import encode_filter
from needlefish.format.thrift import encode_zigzag
from needlefish.index.parquet_bloom import ParquetBlooms, chunks_of, open_blooms, read_filter, stored_type
from needlefish.store import Meter, Store, open_store
from needlefish.testing.s3 import S3Server

OPTIONS = {"id": {"ndv": 2000, "fpp": 0.01}, "name": {"ndv": 2000, "fpp": 0.01}, "nest.leaf": {"ndv": 2000, "fpp": 0.01}}


def table(rows: int = 5000) -> pa.Table:
    numbers = np.random.default_rng(3).permutation(rows)
    names = [f"name {n}" for n in numbers]
    return pa.table({"id": numbers, "name": names, "nest": [{"leaf": int(n) * 2} for n in numbers], "bare": numbers})


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("bloom") / "f.parquet"
    pq.write_table(table(), path, row_group_size=2000, bloom_filter_options=OPTIONS)
    return path.read_bytes()


def opened(folder: Path, content: bytes) -> ParquetBlooms:
    (folder / "f.parquet").write_bytes(content)
    return open_blooms(open_store(StoreConfig(uri=str(folder))), "f.parquet")


def without_lengths(content: bytes) -> bytes:
    """The same file as a writer from before 2.10 would have left it: no bloom_filter_length."""
    size = int.from_bytes(content[-8:-4], "little")
    body, footer = content[: -8 - size], content[-8 - size : -8]
    metadata = pq.read_metadata(pa.BufferReader(content))
    for column in range(3):
        for chunk in chunks_of(metadata, column):
            assert chunk.offset is not None
            assert chunk.length is not None
            before, after = footer.split(encode_zigzag(chunk.offset) + b"\x15" + encode_zigzag(chunk.length))
            # The next field's header counts from the field that is gone now.
            step = 0x10 if after[0] else 0
            footer = before + encode_zigzag(chunk.offset) + bytes([after[0] + step]) + after[1:]
    return body + footer + len(footer).to_bytes(4, "little") + content[-4:]


def test_columns_row_groups_and_answers(tmp_path: Path, content: bytes) -> None:
    blooms = opened(tmp_path, content)
    assert blooms.columns == ("id", "name", "nest.leaf")
    assert [chunk.rows for chunk in blooms.chunks("id")] == [2000, 2000, 1000]
    whole = table()
    for column, values in (
        ("id", whole["id"]),
        ("name", whole["name"]),
        ("nest.leaf", pa.array([row["leaf"] for row in whole["nest"].to_pylist()])),
    ):
        for row in range(0, 5000, 501):
            assert blooms.may_contain(column, values[row].as_py())[row // 2000]
    absent = [any(blooms.may_contain("id", number)) for number in range(10_000, 10_300)]
    assert sum(absent) < 30


def test_a_column_without_a_filter_may_hold_anything(tmp_path: Path, content: bytes) -> None:
    blooms = opened(tmp_path, content)
    assert blooms.filters("bare") == [None, None, None]
    assert blooms.may_contain("bare", -1) == [True, True, True]


def test_a_file_without_the_length_reads_the_same(tmp_path: Path, content: bytes) -> None:
    older = without_lengths(content)
    assert pq.read_metadata(pa.BufferReader(older)).row_group(1).column(1).bloom_filter_length is None
    assert pq.read_table(pa.BufferReader(older)).equals(pq.read_table(pa.BufferReader(content)))
    blooms, known = opened(tmp_path, older), opened(tmp_path, content)
    assert [chunk.length for chunk in blooms.chunks("id")] == [None] * 3
    for column in blooms.columns:
        assert blooms.filters(column) == known.filters(column)


def stored(config: StoreConfig, content: bytes) -> tuple[Store, Meter]:
    meter = Meter()
    store = open_store(config, meter=meter)
    store.put("f.parquet", content)
    return store, meter


@pytest.mark.parametrize("where", ["local", "s3"])
def test_requests_are_one_where_the_length_is_known_and_two_where_not(
    where: str, tmp_path: Path, content: bytes, request: pytest.FixtureRequest
) -> None:
    config = StoreConfig(uri=str(tmp_path)) if where == "local" else request.getfixturevalue("s3").config("bloom")
    for data, per_filter in ((content, 1), (without_lengths(content), 2)):
        store, meter = stored(config, data)
        start = meter.snapshot()
        blooms = open_blooms(store, "f.parquet")
        opening = meter.snapshot() - start
        assert (opening.head.requests, opening.get_range.requests, opening.requests) == (1, 1, 2)
        bloom = blooms.read(blooms.chunks("name")[1])
        reading = meter.snapshot() - start - opening
        assert bloom is not None
        assert bloom.size_bytes == 4096
        assert (reading.get_range.requests, reading.requests) == (per_filter, per_filter)
        assert reading.bytes_read == 4096 + 16


def test_the_server_sees_no_more_requests_than_the_meter(s3: S3Server, content: bytes) -> None:
    store, _ = stored(s3.config("bloom-count"), content)
    blooms = open_blooms(store, "f.parquet")
    before = s3.requests()
    blooms.read(blooms.chunks("id")[0])
    assert s3.requests() - before == 1


def test_a_footer_beyond_the_first_read_takes_one_more(tmp_path: Path) -> None:
    pq.write_table(table(3000), tmp_path / "f.parquet", row_group_size=10, bloom_filter_options=OPTIONS)
    meter = Meter()
    blooms = open_blooms(open_store(StoreConfig(uri=str(tmp_path)), meter=meter), "f.parquet")
    assert len(blooms.chunks("id")) == 300
    assert (meter.snapshot().get_range.requests, meter.snapshot().requests) == (2, 3)
    assert all(blooms.filters("id"))


def test_a_footer_that_pyarrow_parsed_leads_to_the_same_filters(tmp_path: Path, content: bytes) -> None:
    blooms = opened(tmp_path, content)
    for column, name in enumerate(("id", "name", "nest.leaf", "bare")):
        chunks = chunks_of(pq.read_metadata(tmp_path / "f.parquet"), column)
        assert [read_filter(blooms.store, "f.parquet", chunk) for chunk in chunks] == blooms.filters(name)


def test_an_empty_table_has_no_row_groups(tmp_path: Path) -> None:
    pq.write_table(table(0), tmp_path / "f.parquet", bloom_filter_options=OPTIONS)
    blooms = opened(tmp_path, (tmp_path / "f.parquet").read_bytes())
    assert blooms.filters("id") in ([], [SplitBlockFilter.empty(len(bloom)) for bloom in blooms.filters("id") if bloom])
    assert not any(blooms.may_contain("id", 1))


def test_missing_files_and_columns_are_named(tmp_path: Path, content: bytes) -> None:
    blooms = opened(tmp_path, content)
    with pytest.raises(InvalidError, match=r"'ids' is not in f.parquet; it has id, name, nest.leaf, bare"):
        blooms.filters("ids")
    with pytest.raises(NotFoundError):
        open_blooms(blooms.store, "g.parquet")


def test_physical_types_from_the_future_are_unsupported(tmp_path: Path, content: bytes) -> None:
    leaf = opened(tmp_path, content).leaf("id")
    with pytest.raises(UnsupportedError, match="physical type 8"):
        stored_type(replace(leaf, physical=8), "f.parquet")
    with pytest.raises(CorruptError, match="fixed length None"):
        stored_type(replace(leaf, physical=7), "f.parquet")


@pytest.mark.parametrize(
    ("offset", "length"),
    [(10**9, 4112), (10**9, None), (2**62, 4112), (-1, 4112), (-1, None), (0, 0), (0, -5), (4, 4112), (4, None), (0, 2**31 - 1)],
)
def test_locations_that_cannot_be_are_damage(tmp_path: Path, content: bytes, offset: int, length: int | None) -> None:
    blooms = opened(tmp_path, content)
    with pytest.raises(CorruptError, match=r"f.parquet: filter of column 0 in row group 0"):
        blooms.read(replace(blooms.chunks("id")[0], offset=offset, length=length))


@pytest.mark.parametrize("length", [4111, 4113, 100])
def test_a_length_that_contradicts_the_header_is_damage(tmp_path: Path, content: bytes, length: int) -> None:
    blooms = opened(tmp_path, content)
    with pytest.raises(CorruptError):
        blooms.read(replace(blooms.chunks("id")[0], length=length))


@pytest.mark.parametrize("length", [None, 4112])
def test_a_filter_cut_by_the_end_of_the_file_is_damage(tmp_path: Path, length: int | None) -> None:
    data = encode_filter(bytes(4096))
    (tmp_path / "f.parquet").write_bytes(data[:-1])
    chunk = replace(chunks_of(_one_chunk(), 0)[0], offset=0, length=length)
    with pytest.raises(CorruptError, match="the file ends after"):
        read_filter(open_store(StoreConfig(uri=str(tmp_path))), "f.parquet", chunk)


def _one_chunk() -> pq.FileMetaData:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


@pytest.mark.parametrize(
    "data", [b"", b"PAR1", b"x" * 100, b"PAR1" + bytes(4) + b"PAR1", b"PAR1" + b"\xff" * 4 + b"PAR1", b"\0" * 20 + b"\x10\0\0\0PARE"]
)
def test_files_that_are_not_parquet_are_damage(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CorruptError, match=r"f\.parquet"):
        opened(tmp_path, data)


@given(data=st.data())
@settings(max_examples=300)
def test_fuzzed_files_only_raise_our_errors(data: st.DataObject, content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Flips, cuts and splices in the footer and the filters; a filter that still opens is one that the bytes describe."""
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    first = min(chunk.offset or 0 for chunk in chunks_of(pq.read_metadata(pa.BufferReader(content)), 0))
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(first, len(damaged) - 1) | st.integers(len(damaged) - 3000, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        blooms = opened(folder, bytes(damaged))
        for column in blooms.columns:
            for bloom in blooms.filters(column):
                assert bloom is None or bloom.size_bytes % 32 == 0
            blooms.may_contain(column, blooms.leaf(column).path)
    except NeedlefishError:
        return
