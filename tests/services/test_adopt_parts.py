"""Adopting without an engine: path columns, types that fit, files whose keys overlap, and the one entry that commits."""

from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.errors import AlreadyExistsError, NotFoundError
from needlefish.model.chunkset import ChunksetId, ChunksetInfo, PartitionPath
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import schema_from_text
from needlefish.runtime import SYSTEM
from needlefish.services.adopt import check_no_table, commit_adoption, first_repeat, inferred_schema, list_files, suspects
from needlefish.services.adopt.columns import fits
from needlefish.services.adopt.task import adopted
from needlefish.store import RetriedStore, open_store
from needlefish.table.create import define_table
from needlefish.testing.faulty_store import crash_everywhere
from needlefish.testing.tables import scan_table
from needlefish.timeline import read_newest

_numbers = count()


def fresh() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://adopt-{next(_numbers)}"))


def put(store: RetriedStore, path: str, **columns: Any) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    store.put(path, sink.getvalue().to_pybytes())


def test_hidden_names_are_left_out_and_paths_say_columns() -> None:
    store = fresh()
    for path in ("_SUCCESS", ".x.crc", "a=1/_temporary/b=2/c.parquet", "_needlefish/log/0.json", "a=1/b%2Fc=d%3De/f.parquet", "plain/=x/g"):
        store.put(path, b"1")
    files = list_files(store)
    assert [file.path for file in files] == ["a=1/b%2Fc=d%3De/f.parquet", "plain/=x/g"]
    assert [file.values for file in files] == [{"a": "1", "b/c": "d=e"}, {}]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "02", "-3"], "int64"),
        (["1", "9223372036854775808"], "string"),
        (["2026-11-01", "2026-11-02"], "date"),
        (["2026-11-01", "20261102"], "string"),
        (["1", "x"], "string"),
        (["__HIVE_DEFAULT_PARTITION__", "7"], "int64"),
        (["__HIVE_DEFAULT_PARTITION__"], "string"),
        (["²"], "string"),
    ],
)
def test_path_columns_have_the_type_that_all_values_have(texts: list[str], kind: str) -> None:
    store = fresh()
    for number, text in enumerate(texts):
        put(store, f"p={text}/{number}.parquet", id=[number])
    fields = inferred_schema(store, list_files(store)).fields
    assert [(field.name, field.type, field.nullable) for field in fields] == [("id", "int64", True), ("p", kind, True)]


@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        ("int8", "int64", True),
        ("int64", "int32", False),
        ("uint8", "uint32", True),
        ("uint8", "int16", False),
        ("float", "double", True),
        ("int32", "double", False),
        ("decimal(9,2)", "decimal(12,3)", True),
        ("decimal(9,2)", "decimal(9,3)", False),
        ("timestamp", "timestamp_ntz", False),
        ("list<int32>", "list<int64>", False),
        ("list<int32>", "list<int32>", True),
        ("string", "binary", False),
    ],
)
def test_only_types_that_hold_every_value_fit(stored: str, wanted: str, expected: bool) -> None:
    assert fits(stored, wanted) is expected


def info(path: str, first: bytes, last: bytes, partition: str = ".") -> ChunksetInfo:
    return ChunksetInfo(
        id=ChunksetId(path),
        partition=PartitionPath(partition),
        partition_values=(),
        rows=1,
        bytes=1,
        footer_bytes=1,
        footer_checksum="",
        first_key=first,
        last_key=last,
        prev_max=-1,
        schema_id=1,
        granules=(),
        adopted=path,
    )


def definition(**properties: object) -> TableDefinition:
    return define_table(schema_from_text("id string"), "id", [], properties)


def test_only_files_whose_key_ranges_overlap_are_doubted() -> None:
    files = [
        info("long", b"a", b"m"),
        info("inside", b"b", b"c"),
        info("also inside", b"d", b"e"),
        info("touches", b"m", b"n"),
        info("apart", b"o", b"p"),
        info("elsewhere", b"a", b"z", "p=1"),
    ]
    assert {suspect.info.path for suspect in suspects(definition(), files)} == {"long", "inside", "also inside", "touches"}
    doubted = suspects(definition(global_keys=True), files)
    assert ({suspect.info.path for suspect in doubted}, {suspect.place for suspect in doubted}) == ({file.path for file in files}, {0})


def test_equal_hashes_alone_are_no_repeat() -> None:
    rows: list[dict[str, object]] = [
        {"place": 0, "key": b"1", "shown": "a", "path": "x"},
        {"place": 0, "key": b"2", "shown": "b", "path": "y"},
    ]
    assert first_repeat([*rows, {"place": 1, "key": b"1", "shown": "a", "path": "z"}]) is None
    assert "the key a is in w and in x" in str(first_repeat([*rows, {"place": 0, "key": b"1", "shown": "a", "path": "w"}]))


def test_a_crash_at_any_call_leaves_no_table_or_all_of_it() -> None:
    def make() -> RetriedStore:
        store = fresh()
        put(store, "p=1/a.parquet", id=["b", "a"])
        put(store, "p=2/a.parquet", id=["c", "a"])
        return store

    def work(store: Any) -> None:
        check_no_table(store)
        files = list_files(store)
        wanted = define_table(inferred_schema(store, files), "id", "p", {})
        entries = [adopted(store, wanted, file, SYSTEM) for file in files]
        commit_adoption(store, wanted, [entry.info for entry in entries if entry], [])

    outcomes = set()
    for point in crash_everywhere(make, work):
        try:
            state = read_newest(point.store)
        except NotFoundError:
            outcomes.add("no table")
            work(point.store)
            state = read_newest(point.store)
        else:
            outcomes.add("the table")
            with pytest.raises(AlreadyExistsError, match="holds a table already"):
                work(point.store)
        rows, _ = scan_table(point.store, state)
        assert (state.version, sorted(map(str, rows.to_pylist()))) == (0, sorted(map(str, _expected())))
    assert outcomes == {"no table", "the table"}


def _expected() -> list[dict[str, object]]:
    return [{"id": "b", "p": 1}, {"id": "a", "p": 1}, {"id": "c", "p": 2}, {"id": "a", "p": 2}]


def test_of_two_adopters_one_succeeds() -> None:
    store = fresh()
    put(store, "a.parquet", id=["a"])
    commit_adoption(store, definition(), [replace(info("a.parquet", b"a", b"a"), rows=1)], [])
    with pytest.raises(AlreadyExistsError):
        commit_adoption(store, definition(), [], [])
    assert read_newest(store).totals.files == 1
