"""Chunksets: cut by rows and bytes, sorted, free of duplicates, with all that readers of Parquet may hope for."""

# Times without a zone are a type of column here.
# ruff: noqa: DTZ001

import io
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.format.key_order import encode_key
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, Store, open_store
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.partition import PARTITION_COLUMN
from needlefish.testing.tables import build_table, scan_table, write_rows

_ALL_TYPES = (
    "tags list<string>, place struct<lat:double,at:struct<x:int8,y:int8>>, counts map<string,int64>, id string, b boolean, i8 int8, i16 int16, i32 int32, i64 int64, "
    "u8 uint8, u16 uint16, u32 uint32, u64 uint64, f float, d double, m decimal(38,10), raw binary, day date, ts timestamp, wall timestamp_ntz"
)


def _row(number: int) -> dict[str, Any]:
    return {
        "tags": [f"t{number}", None],
        "place": {"lat": 1.5, "at": {"x": 1, "y": None}},
        "counts": [("a", number)],
        "id": f"k{number:04}",
        "b": number % 2 == 0,
        "i8": -number % 100,
        "i16": -number,
        "i32": number,
        "i64": -(2**63) + number,
        "u8": number % 256,
        "u16": number,
        "u32": 2**32 - 1 - number,
        "u64": 2**64 - 1 - number,
        "f": number / 4,
        "d": math.nan if number == 3 else number / 3,
        "m": Decimal(number) / 8,
        "raw": bytes([number % 256]),
        "day": date(1969, 12, 31),
        "ts": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "wall": datetime(2026, 1, 1, 0, 0, 0, 1),
    }


def _table(store: Store, schema: str = "id int32, s string", key: str | Sequence[str] = "id", **more: Any) -> TableState:
    return build_table(store, schema, key, **more)


def _infos(store: Store, state: TableState, rows: list[dict[str, Any]]) -> list[ChunksetInfo]:
    return [entry.info for entry in write_rows(store, state, rows).entries]


def _write(store: Store, state: TableState, *batches: list[dict[str, Any]]) -> list[ChunksetInfo]:
    """Batches as they come, unsorted if they are."""
    schema = state.definition.schema.to_arrow()
    plan = WritePlan(definition=state.definition, prev_max=state.version)
    entries = write_chunksets((pa.RecordBatch.from_pylist(batch, schema=schema) for batch in batches), plan, store, SYSTEM)
    return [entry.info for entry in entries]


def _file(store: Store, info: ChunksetInfo) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(store.get(info.path)))


@pytest.mark.parametrize(
    ("rows", "granule_rows", "chunkset_rows", "wanted"),
    [
        (0, 3, 10, []),
        (1, 3, 10, [[1]]),
        (10, 3, 10, [[3, 3, 3, 1]]),
        (11, 3, 10, [[3, 3, 3, 1], [1]]),
        (20, 5, 10, [[5, 5], [5, 5]]),
        (7, 100, 3, [[3], [3], [1]]),
        (7, 1, 7, [[1] * 7]),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 4, 100])
def test_granules_and_chunksets_are_cut_by_rows(
    store: RetriedStore, rows: int, granule_rows: int, chunkset_rows: int, wanted: list[list[int]], batch_rows: int
) -> None:
    state = _table(store, properties={"granule_rows": granule_rows, "chunkset_rows": chunkset_rows})
    numbered = [{"id": number, "s": "x"} for number in range(rows)]
    infos = _write(store, state, *(numbered[at : at + batch_rows] for at in range(0, rows, batch_rows)))
    assert [[granule.rows for granule in info.granules] for info in infos] == wanted
    assert [info.rows for info in infos] == [sum(granules) for granules in wanted]
    assert [pq.ParquetFile(io.BytesIO(store.get(info.path))).read()["id"].to_pylist() for info in infos] == [
        list(range(sum(map(sum, wanted[:at])), sum(map(sum, wanted[: at + 1])))) for at in range(len(wanted))
    ]


def test_chunksets_are_cut_by_bytes(store: RetriedStore) -> None:
    state = _table(store, "id int32, raw binary", properties={"granule_rows": 10, "chunkset_bytes": 100_000, "compression": "none"})
    rows = [{"id": number, "raw": bytes([number]) * 1_000} for number in range(250)]
    # Ten granules of ten rows reach the target; the footer comes on top.
    assert [info.rows for info in _infos(store, state, rows)] == [100, 100, 50]


def test_an_info_says_what_the_file_is(store: RetriedStore) -> None:
    state = _table(store, key=["s", "id"], properties={"granule_rows": 4}, rows=[{"id": 1, "s": "x"}])
    (info,) = _infos(store, state, [{"id": number, "s": f"s{number % 3}"} for number in range(10)])
    types = [pa.string(), pa.int32()]
    data = store.get(info.path)
    assert info.bytes == len(data)
    assert int.from_bytes(data[-8:-4], "little") + 8 == info.footer_bytes
    assert (info.first_key, info.last_key) == (encode_key(["s0", 0], types), encode_key(["s2", 8], types))
    assert (info.prev_max, info.schema_id, info.partition, info.partition_values) == (1, 1, ".", ())
    assert info.path == f"data/{info.id}.parquet"
    metadata = _file(store, info).metadata
    assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [4, 4, 2]


def test_granules_know_where_their_bytes_are(store: RetriedStore) -> None:
    state = _table(store, _ALL_TYPES, properties={"granule_rows": 16})
    (info,) = _infos(store, state, [_row(number) for number in range(40)])
    metadata = _file(store, info).metadata
    for number, granule in enumerate(info.granules):
        group = metadata.row_group(number)
        for column in (group.column(at) for at in range(group.num_columns)):
            start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            assert granule.offset <= start
            assert start + column.total_compressed_size <= granule.offset + granule.bytes
    assert all(one.offset + one.bytes <= other.offset for one, other in pairwise(info.granules))


def test_files_have_statistics_page_index_checksums_filters_and_field_ids(store: RetriedStore) -> None:
    state = _table(store, _ALL_TYPES, key=["id", "b", "i64"], properties={"granule_rows": 100})
    (info,) = _infos(store, state, [_row(number) for number in range(250)])
    file = _file(store, info)
    assert [field.metadata[b"PARQUET:field_id"] for field in file.schema_arrow] == [str(number).encode() for number in range(1, 21)]
    for number in range(3):
        group = file.metadata.row_group(number)
        columns = {column.path_in_schema: column for column in (group.column(at) for at in range(group.num_columns))}
        assert all(column.has_column_index and column.has_offset_index for column in columns.values())
        assert all(column.statistics.has_min_max for name, column in columns.items() if name not in ("tags.list.element", "place.at.y"))
        assert all(column.compression == "ZSTD" for column in columns.values())
        # Booleans have no filter in Parquet; nothing but the key has one here.
        assert {name for name, column in columns.items() if column.bloom_filter_offset is not None} == {"id", "i64"}
        # Leaves are counted, so that the nested columns in front take six places.
        sorted_by = [group.column(column.column_index).path_in_schema for column in group.sorting_columns]
        assert sorted_by == ["id", "b", "i64"]


def test_filters_are_sized_for_the_rows_there_are(store: RetriedStore) -> None:
    """One filter of fixed size for every file cost others 323 KB for a single record."""
    sizes = []
    for rows in (1, 100, 1_000, 5_000):
        beside = open_store(StoreConfig(uri=f"{store.uri}-{rows}"))
        (info,) = _infos(beside, _table(beside), [{"id": number, "s": "x"} for number in range(rows)])
        column = _file(beside, info).metadata.row_group(0).column(0)
        sizes.append(column.bloom_filter_length)
    assert sizes[0] < 100
    assert all(one < other for one, other in pairwise(sizes))
    # 10.5 bits each at one percent, to the next power of two.
    assert sizes[-1] <= 5_000 * 10.5 / 8 * 2 + 64


def test_any_reader_of_parquet_sees_the_same_rows(uri: str) -> None:
    store = open_store(StoreConfig(uri=uri))
    rows = [_row(number) for number in range(30)]
    state = build_table(store, _ALL_TYPES, "id", rows, properties={"granule_rows": 7, "chunkset_rows": 20})
    ours, _ = scan_table(store, state)
    assert ours.schema == state.definition.schema.to_arrow()
    files = sorted(str(path) for path in Path(uri, "data").rglob("*.parquet"))
    theirs = pa.concat_tables([pq.read_table(file) for file in files]).sort_by("id")
    assert theirs.to_pylist()[:3] == ours.sort_by("id").to_pylist()[:3] == rows[:3]
    assert str(theirs.to_pylist()) == str(ours.sort_by("id").to_pylist())
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        counted = connection.execute(
            "SELECT count(*), min(id), max(id), sum(i32), min(u64), sum(m), min(day), min(ts)::varchar, count(tags[1]), sum(place.at.x), max(d) FROM read_parquet($1)",
            [files],
        ).fetchone()
    assert counted is not None
    assert counted[:7] == (30, "k0000", "k0029", 435, 2**64 - 30, Decimal("54.3750000000"), date(1969, 12, 31))
    assert counted[7:10] == ("1969-12-31 23:59:59.999999+00", 30, 30)
    assert math.isnan(counted[10])


@pytest.mark.parametrize("compression", ["zstd", "lz4", "snappy", "gzip", "brotli", "none"])
def test_every_codec_is_written_and_read(store: RetriedStore, compression: str) -> None:
    rows = [{"id": number, "s": "x" * number} for number in range(50)]
    state = _table(store, rows=rows, properties={"compression": compression})
    assert scan_table(store, state)[0].to_pylist() == rows


@pytest.mark.parametrize("batches", [[[1, 2, 2, 3]], [[1, 2], [2, 3]], [[1], [2], [2]], [[1, 2, 3, 4, 5, 6], [6]]])
def test_duplicate_keys_are_refused_with_the_key(store: RetriedStore, batches: list[list[int]]) -> None:
    """Also across batches, granules and chunksets."""
    state = _table(store, properties={"granule_rows": 2, "chunkset_rows": 3})
    twice = max(number for batch in batches for number in batch if sum(other == number for many in batches for other in many) > 1)
    with pytest.raises(InvalidError, match=rf"df has the key {{'id': {twice}}} more than once; append takes rows with distinct keys"):
        _write(store, state, *([{"id": number, "s": "x"} for number in batch] for batch in batches))


def test_nan_and_the_two_zeros_are_one_key_each(store: RetriedStore) -> None:
    state = _table(store, "x double, n int32", "x")
    for left, right in [(math.nan, math.nan), (-0.0, 0.0), (0.0, -0.0)]:
        with pytest.raises(InvalidError, match="more than once"):
            _write(store, state, [{"x": left, "n": 1}, {"x": right, "n": 2}])
    (info,) = _write(store, state, [{"x": -0.0, "n": 1}, {"x": 5.0, "n": 1}, {"x": math.nan, "n": 2}])
    assert info.rows == 3


def test_composite_keys_are_duplicates_only_as_a_whole(store: RetriedStore) -> None:
    state = _table(store, key=["s", "id"])
    _write(store, state, [{"s": "a", "id": 1}, {"s": "a", "id": 2}, {"s": "b", "id": 2}])
    with pytest.raises(InvalidError, match=r"the key {'s': 'a', 'id': 2} more than once"):
        _write(store, state, [{"s": "a", "id": 1}, {"s": "a", "id": 2}, {"s": "a", "id": 2}])


def test_the_same_key_in_two_partitions_is_no_duplicate(store: RetriedStore) -> None:
    state = _table(store, rows=[{"id": 1, "s": "a"}, {"id": 1, "s": "b"}], partition_by="s")
    assert state.totals.rows == 2
    with pytest.raises(InvalidError, match="more than once in partition s=a; append takes"):
        write_rows(store, state, [{"id": 1, "s": "a"}, {"id": 1, "s": "a"}])


@pytest.mark.parametrize(
    "batches",
    [
        [[{"id": 2, "s": "a"}, {"id": 1, "s": "a"}]],
        [[{"id": 2, "s": "a"}], [{"id": 1, "s": "a"}]],
    ],
)
def test_rows_out_of_order_are_a_bug_of_the_caller(store: RetriedStore, batches: list[list[dict[str, Any]]]) -> None:
    """They would be written under a wrong first and last key, and scans would lose them without a word."""
    with pytest.raises(AssertionError, match="are not sorted by id"):
        _write(store, _table(store), *batches)


def test_the_order_is_that_of_keys_column_by_column(store: RetriedStore) -> None:
    state = _table(store, "x double, s string", ["x", "s"])
    _write(
        store,
        state,
        [{"x": -math.inf, "s": "b"}, {"x": 1.0, "s": "b"}, {"x": 2.0, "s": "a"}, {"x": math.nan, "s": "a"}, {"x": math.nan, "s": "b"}],
    )
    for wrong in ([(math.nan, "a"), (1.0, "b")], [(1.0, "b"), (1.0, "a")]):
        with pytest.raises(AssertionError, match="are not sorted by x, s"):
            _write(store, state, [{"x": x, "s": s} for x, s in wrong])


def test_a_null_in_the_key_is_refused_with_the_row(store: RetriedStore) -> None:
    state = _table(store, key=["id", "s"])
    rows = pa.RecordBatch.from_pylist([{"id": 1, "s": "a"}, {"id": 7, "s": None}])
    plan = WritePlan(definition=state.definition, prev_max=0)
    with pytest.raises(InvalidError, match=r"df has a null in key column 's', in the row {'id': 7}; every row needs a value there"):
        list(write_chunksets([rows], plan, store, SYSTEM))
    assert [info.path for info in store.list("data/")] == []


def test_a_missing_key_column_is_refused_like_nulls(store: RetriedStore) -> None:
    state = _table(store, key=["id", "s"])
    plan = WritePlan(definition=state.definition, prev_max=0)
    with pytest.raises(InvalidError, match="df has a null in key column 's'"):
        list(write_chunksets([pa.RecordBatch.from_pylist([{"id": 1}])], plan, store, SYSTEM))


def test_partitions_come_from_the_route_if_rows_bring_it_along(store: RetriedStore) -> None:
    state = _table(store, partition_by="s")
    plan = WritePlan(definition=state.definition, prev_max=0)
    rows = pa.RecordBatch.from_pylist([{"id": 1, "s": "a", PARTITION_COLUMN: "s=a"}, {"id": 1, "s": "b", PARTITION_COLUMN: "s=b"}])
    infos = [entry.info for entry in write_chunksets([rows], plan, store, SYSTEM)]
    assert [(info.partition, info.partition_values) for info in infos] == [("s=a", ("a",)), ("s=b", ("b",))]


def test_a_chunkset_is_put_before_it_is_told(store: RetriedStore) -> None:
    state = _table(store, properties={"chunkset_rows": 2, "granule_rows": 2})
    plan = WritePlan(definition=state.definition, prev_max=0)
    batches = (pa.RecordBatch.from_pylist([{"id": number, "s": "x"}]) for number in range(6))
    for told, entry in enumerate(write_chunksets(batches, plan, store, SYSTEM), 1):
        assert store.head(entry.info.path).size == entry.info.bytes
        # Nothing is written ahead: memory holds one chunkset.
        assert len(list(store.list("data/"))) == told
