"""Records of skips: sorted by key, united where a chunkset is named twice, and never taken for empty when they are damaged."""

import pyarrow as pa
import pytest
from pyroaring import BitMap

from needlefish.errors import CorruptError
from needlefish.format.metadata_key import file_key
from needlefish.format.skips_record import SKIPS_SCHEMA, Skips, decode_skips, encode_skips
from needlefish.model.chunkset import PartitionPath


def skips(name: str, *rows: int, partition: str = "day=1") -> Skips:
    return Skips(partition=PartitionPath(partition), file_name=name, rows=BitMap(rows))


def test_records_come_back_sorted_by_key() -> None:
    given = [skips(f"{number}.parquet", number, 70_000 + number) for number in range(20)]
    records = encode_skips(given)
    assert records.schema == SKIPS_SCHEMA
    keys = records["key"].to_pylist()
    assert keys == sorted(file_key("day=1", f"{number}.parquet") for number in range(20))
    assert {one.file_name: one for one in map(decode_skips, records.to_pylist())} == {one.file_name: one for one in given}
    assert not any(records["is_deleted"].to_pylist())


def test_what_is_said_twice_of_a_chunkset_is_united_and_what_hides_nothing_is_left_out() -> None:
    records = encode_skips([skips("a", 1, 2), skips("b"), skips("a", 2, 9), skips("a", 5, partition="day=2")])
    found = {(one.partition, one.file_name): set(one.rows) for one in map(decode_skips, records.to_pylist())}
    assert found == {("day=1", "a"): {1, 2, 9}, ("day=2", "a"): {5}}


def test_encoding_leaves_the_bitmap_as_it_was() -> None:
    rows = BitMap(range(1000))
    before = rows.serialize()
    encode_skips([Skips(partition=PartitionPath("."), file_name="a", rows=rows)])
    assert rows.serialize() == before


@pytest.mark.parametrize("data", [b"", b"abc", bytes(20), BitMap([1, 2, 3]).serialize()[:-1], None])
def test_bytes_that_are_no_bitmap_are_damage(data: bytes | None) -> None:
    (row,) = encode_skips([skips("a", 1)]).to_pylist()
    with pytest.raises(CorruptError, match=r"the skips of day=1/a are no Roaring bitmap"):
        decode_skips(row | {"skips": data})


def test_the_bitmap_is_roarings_portable_form() -> None:
    """Cookie 12346, one container, key 0, cardinality 2, then its offset and the two values."""
    column = encode_skips([skips("a", 1, 7)])["skips"]
    assert pa.types.is_binary(column.type)
    assert column[0].as_py().hex() == "3a30000001000000" + "00000100" + "10000000" + "01000700"
