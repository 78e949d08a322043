"""StoreFile is a file that pyarrow reads Parquet from, one request per read."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.errors import NotFoundError
from needlefish.store import ByteRange, RetriedStore, SpanFile, StoreFile, Usage, open_store

_ROWS = 20_000
_GROUP = 2_000


@pytest.fixture
def store(tmp_path: Path) -> RetriedStore:
    store = open_store(StoreConfig(uri=str(tmp_path)))
    store.put("digits", b"0123456789")
    return store


@pytest.fixture
def table() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(_ROWS)),
            "name": [f"name-{row * 7919 % _ROWS:08}" for row in range(_ROWS)],
            "x": [row / 3 for row in range(_ROWS)],
        }
    )


@pytest.fixture
def parquet(store: RetriedStore, table: pa.Table) -> int:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=_GROUP)
    store.put("t.parquet", sink.getvalue())
    return len(sink.getvalue())


def _spent_since(store: RetriedStore, before: Usage) -> Usage:
    return store.meter.snapshot() - before


def test_it_is_a_file(store: RetriedStore) -> None:
    file = StoreFile(store, "digits")
    assert (file.readable(), file.seekable(), file.writable(), file.size) == (True, True, False, 10)
    assert file.read(3) == b"012"
    assert file.tell() == 3
    assert (file.seek(-2, io.SEEK_END), file.read()) == (8, b"89")
    assert (file.seek(2), file.seek(2, io.SEEK_CUR), file.read(2)) == (2, 4, b"45")
    assert (file.seek(50), file.read(5), file.read()) == (50, b"", b"")
    assert io.BufferedReader(StoreFile(store, "digits")).read() == b"0123456789"
    assert StoreFile(store, "digits").readall() == b"0123456789"


def test_wrong_seeks_are_refused(store: RetriedStore) -> None:
    file = StoreFile(store, "digits")
    with pytest.raises(ValueError, match="whence"):
        file.seek(0, 7)
    with pytest.raises(ValueError, match="negative"):
        file.seek(-1)


def test_a_closed_file_reads_no_more(store: RetriedStore) -> None:
    with StoreFile(store, "digits") as file:
        assert file.read(1) == b"0"
    with pytest.raises(ValueError, match="closed"):
        file.read(1)


def test_a_known_size_saves_a_request(store: RetriedStore) -> None:
    before = store.meter.snapshot()
    assert StoreFile(store, "digits", size=10).read(4) == b"0123"
    assert _spent_since(store, before).requests == 1
    with pytest.raises(NotFoundError):
        StoreFile(store, "missing")


def test_pyarrow_reads_a_table(store: RetriedStore, parquet: int, table: pa.Table) -> None:
    assert pq.read_table(StoreFile(store, "t.parquet", size=parquet)).equals(table)


def test_a_row_group_costs_one_request_once_the_footer_is_known(store: RetriedStore, parquet: int, table: pa.Table) -> None:
    """With `pre_buffer` pyarrow joins the column chunks of a row group: footer 1, group 1."""
    before = store.meter.snapshot()
    file = pq.ParquetFile(StoreFile(store, "t.parquet", size=parquet), pre_buffer=True)
    assert _spent_since(store, before).requests == 1
    assert file.read_row_group(3).equals(table.slice(3 * _GROUP, _GROUP))
    assert _spent_since(store, before).requests == 2
    known = pq.ParquetFile(StoreFile(store, "t.parquet", size=parquet), pre_buffer=True, metadata=file.metadata)
    before = store.meter.snapshot()
    assert known.read_row_group(5, columns=["name"]).equals(table.slice(5 * _GROUP, _GROUP).select(["name"]))
    spent = _spent_since(store, before)
    assert spent.get_range.requests == 1
    assert spent.bytes_read < parquet / 10


def test_what_is_held_costs_nothing_and_the_rest_is_asked_for_when_it_is_read(store: RetriedStore) -> None:
    file = _held(store, "digits", 10, ByteRange(1, 3), ByteRange(6, 2))
    before = store.meter.snapshot()
    for start, size, wanted in ((1, 3, b"123"), (2, 1, b"2"), (6, 2, b"67"), (7, 0, b"")):
        file.seek(start)
        assert (bytes(file.read_buffer(size)), file.tell()) == (wanted, start + size)
    assert _spent_since(store, before).requests == 0
    for start, size, wanted in ((0, 2, b"01"), (3, 4, b"3456"), (7, 2, b"78"), (8, 99, b"89")):
        file.seek(start)
        assert (bytes(file.read_buffer(size)), file.tell()) == (wanted, start + len(wanted))
    assert _spent_since(store, before).requests == 4


def test_the_store_that_came_with_the_spans_pays_until_others_come(store: RetriedStore) -> None:
    file = _held(store, "digits", 10, ByteRange(0, 2))
    payer = store.apart()
    file.hold([ByteRange(4, 2)], [b"45"], payer)
    before = store.meter.snapshot()
    for start, size, requests in ((4, 2, 0), (0, 2, 1)):
        file.seek(start)
        file.read_buffer(size)
        assert payer.meter.snapshot().requests == requests
    file.forget()
    file.seek(4)
    assert bytes(file.read_buffer(2)) == b"45"
    assert payer.meter.snapshot().requests == 2
    assert _spent_since(store, before).requests == 0


def test_a_span_past_the_end_ends_with_the_object(store: RetriedStore) -> None:
    file = _held(store, "digits", 20, ByteRange(8, 6))
    file.seek(8)
    assert (bytes(file.read_buffer(6)), file.tell()) == (b"89", 10)


def test_pyarrow_reads_row_groups_from_their_spans(store: RetriedStore, table: pa.Table, parquet: int) -> None:
    metadata = pq.read_metadata(io.BytesIO(store.get("t.parquet")))
    before = store.meter.snapshot()
    file = _held(store, "t.parquet", parquet, ByteRange(0, parquet))
    found = pq.ParquetFile(file, metadata=metadata).read_row_groups([3, 7], use_threads=False)
    assert found.equals(pa.concat_tables([table.slice(3 * _GROUP, _GROUP), table.slice(7 * _GROUP, _GROUP)]))
    assert _spent_since(store, before).requests == 1


def _held(store: RetriedStore, path: str, size: int, *spans: ByteRange) -> SpanFile:
    file = SpanFile(store, path, size)
    file.hold(spans, store.get_ranges(path, spans))
    return file
