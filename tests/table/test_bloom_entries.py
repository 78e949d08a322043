"""Bloom filters of chunksets: sized for the values that are there, and every one of those is in them."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from needlefish.filters.hash import hash_key_value, hash_value
from needlefish.filters.split_block import BLOCK_BYTES, SplitBlockFilter, blocks_for
from needlefish.format.bloom_record import bloom_key
from needlefish.format.metadata_key import file_key, hash64_part
from needlefish.index.run_reader import RunReader
from needlefish.model.types import parse_type
from needlefish.store import RetriedStore
from needlefish.testing.tables import append_rows, build_table

Row = dict[str, Any]


def records_of(store: RetriedStore, state: Any) -> list[Row]:
    return [row for run in state.runs_of("bloom_filters") for batch in RunReader(run).scan(store) for row in batch.to_pylist()]


def filters_of(
    store: RetriedStore, schema: str, key: str | list[str], rows: list[Row], **arguments: Any
) -> dict[int | None, SplitBlockFilter]:
    state = build_table(store, schema, key, rows, **arguments)
    records = records_of(store, state)
    assert len({record["file_name"] for record in records}) == 1
    return {record["field_id"]: SplitBlockFilter.from_bytes(record["filter"]) for record in records}


def test_one_row_has_one_block(store: RetriedStore) -> None:
    (found,) = filters_of(store, "id string", "id", [{"id": "a"}]).values()
    assert len(found) == 1
    assert found.may_contain(hash_value("a", pa.string()))
    assert not found.may_contain(hash_value("b", pa.string()))


def test_a_constant_column_has_one_block_however_many_rows(store: RetriedStore) -> None:
    rows = [{"id": number, "host": "h1"} for number in range(5_000)]
    found = filters_of(store, "id int64, host string", "id", rows, bloom_columns=["host"], properties={"granule_rows": 500})
    assert len(found[2]) == 1
    assert len(found[None]) == blocks_for(5_000, 0.00001)


def test_a_column_of_nulls_has_an_empty_filter(store: RetriedStore) -> None:
    found = filters_of(store, "id int64, host string", "id", [{"id": 1, "host": None}, {"id": 2, "host": None}], bloom_columns=["host"])
    assert (len(found[2]), found[2].bits_set()) == (1, 0)


@pytest.mark.parametrize("values", [1, 10, 1_000, 20_000])
def test_size_follows_distinct_values(store: RetriedStore, values: int) -> None:
    rows = [{"id": number, "v": number % values} for number in range(20_000)]
    found = filters_of(
        store, "id int64, v int64", "id", rows, bloom_columns=["v"], properties={"granule_rows": 3_000, "file_bloom_probability": 0.001}
    )
    assert found[2].size_bytes == blocks_for(values, 0.001) * BLOCK_BYTES
    for value in range(0, values, max(1, values // 50)):
        assert found[2].may_contain(hash_value(value, pa.int64()))
    wrong = sum(found[2].may_contain(hash_value(value, pa.int64())) for value in range(10**6, 10**6 + 5_000))
    assert wrong <= 5_000 * 0.001 * 4


def test_a_composite_key_is_hashed_as_a_whole(store: RetriedStore) -> None:
    kinds = [pa.string(), pa.int32()]
    found = filters_of(store, "a string, b int32", ["a", "b"], [{"a": "x", "b": 1}, {"a": "y", "b": 2}])[None]
    assert found.may_contain(hash_key_value(("x", 1), kinds))
    assert found.may_contain(hash_key_value(("y", 2), kinds))
    assert not found.may_contain(hash_key_value(("x", 2), kinds))


VALUES: dict[str, Any] = {
    "int8": -1,
    "uint64": 2**64 - 1,
    "float": 0.25,
    "double": 0.1,
    "decimal(5,2)": Decimal("-9.99"),
    "string": "é",
    "binary": b"\0\xff",
    "date": date(1969, 12, 31),
    "timestamp": datetime(2026, 11, 1, tzinfo=UTC),
}


@pytest.mark.parametrize("kind", VALUES)
def test_hashes_are_those_of_the_columns_type(store: RetriedStore, kind: str) -> None:
    found = filters_of(store, f"id int32, v {kind}", "id", [{"id": 1, "v": VALUES[kind]}], bloom_columns=["v"])
    assert found[2].may_contain(hash_value(VALUES[kind], parse_type(kind)))
    assert found[2].bits_set() == 8, "one value, one bit in each lane"


def test_records_have_hudis_keys_and_every_file_its_own(store: RetriedStore) -> None:
    state = build_table(
        store, "id int32, host string", "id", [{"id": n, "host": f"h{n % 3}"} for n in range(40)],
        partition_by=["bucket(id, 2)"], bloom_columns=["host"], properties={"chunkset_rows": 8},
    )  # fmt: skip
    state = append_rows(store, state, [{"id": 100, "host": None}])
    records = records_of(store, state)
    infos = [row for run in state.runs_of("files") for batch in RunReader(run).scan(store) for row in batch.to_pylist()]
    names = {info["id"] + ".parquet": info["partition"] for info in infos}
    assert len(records) == 2 * len(infos)
    for record in records:
        assert record["partition"] == names[record["file_name"]]
        assert record["key"] == bloom_key(record["partition"], record["file_name"], record["field_id"])
        assert record["key"].startswith(file_key(record["partition"], record["file_name"]))
        assert record["key"].endswith("" if record["field_id"] is None else hash64_part("2"))
        assert (record["type"], record["is_deleted"]) == ("SPLIT_BLOCK", False)
        assert record["timestamp"] > 0
