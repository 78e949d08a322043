"""For every type that pyarrow writes a filter for, our hash and our filter give its bytes, bit for bit."""

import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.filters.hash import hash_array
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.bloom import encode_filter
from needlefish.index.parquet_bloom import ParquetBlooms, open_blooms, stored_type
from needlefish.store import open_store

ROWS = 300
DAY = date(2026, 11, 1)
MOMENT = datetime(2026, 11, 1, 12, 30)  # noqa: DTZ001

COLUMNS: dict[str, pa.Array] = {
    **{str(kind): pa.array(range(100), kind) for kind in (pa.int8(), pa.uint8())},
    **{str(kind): pa.array(range(ROWS), kind) for kind in (pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint32(), pa.uint64())},
    "large uint32": pa.array(np.arange(2**32 - ROWS, 2**32), pa.uint32()),
    "large uint64": pa.array([2**64 - 1 - n for n in range(ROWS)], pa.uint64()),
    "float16": pa.array(np.arange(ROWS, dtype=np.float16)),
    "float": pa.array([n / 7 for n in range(ROWS)], pa.float32()),
    "double": pa.array([-n / 7 for n in range(ROWS)], pa.float64()),
    "decimal 9": pa.array([Decimal(n - 100).scaleb(-2) for n in range(ROWS)], pa.decimal128(9, 2)),
    "decimal 18": pa.array([Decimal(n - 100).scaleb(-2) for n in range(ROWS)], pa.decimal128(18, 2)),
    "decimal 38": pa.array([Decimal(n - 100).scaleb(-2) for n in range(ROWS)], pa.decimal128(38, 2)),
    "decimal 50": pa.array([Decimal(n - 100).scaleb(-2) for n in range(ROWS)], pa.decimal256(50, 2)),
    "string": pa.array([f"key {n}" for n in range(ROWS)]),
    "large_string": pa.array([f"key {n}" for n in range(ROWS)], pa.large_string()),
    "string_view": pa.array([f"a key that is long {n}" for n in range(ROWS)], pa.string_view()),
    "binary": pa.array([n.to_bytes(n % 9 + 2, "big") for n in range(ROWS)]),
    "fixed_size_binary": pa.array([n.to_bytes(5, "big") for n in range(ROWS)], pa.binary(5)),
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([uuid.UUID(int=n).bytes for n in range(ROWS)], pa.binary(16))),
    "date32": pa.array([DAY + timedelta(n) for n in range(ROWS)], pa.date32()),
    "date64": pa.array([DAY + timedelta(n) for n in range(ROWS)], pa.date64()),
    "time32": pa.array([time(n % 24, n % 60, n % 59) for n in range(ROWS)], pa.time32("ms")),
    "time64": pa.array([time(n % 24, n % 60, n % 59, n) for n in range(ROWS)], pa.time64("us")),
    **{
        f"timestamp {unit}": pa.array([MOMENT + timedelta(seconds=n) for n in range(ROWS)], pa.timestamp(unit))
        for unit in ("s", "ms", "us", "ns")
    },
    "timestamp utc": pa.array([MOMENT.replace(tzinfo=UTC) + timedelta(seconds=n) for n in range(ROWS)], pa.timestamp("us", tz="UTC")),
    "dictionary": pa.array([f"word {n % 40}" for n in range(ROWS)]).dictionary_encode(),
    "with nulls": pa.array([None if n % 3 else n for n in range(ROWS)], pa.int64()),
}


def written(folder: Path, array: pa.Array, **options: object) -> ParquetBlooms:
    pq.write_table(
        pa.table({"c": array}), folder / "f.parquet", row_group_size=200, bloom_filter_options={"c": {"ndv": ROWS, "fpp": 0.01}}, **options
    )
    return open_blooms(open_store(StoreConfig(uri=str(folder))), "f.parquet")


def ours(blooms: ParquetBlooms, array: pa.Array) -> list[SplitBlockFilter]:
    stored, made = stored_type(blooms.leaf("c"), "f.parquet"), []
    for number, theirs in enumerate(blooms.filters("c")):
        assert theirs is not None
        made.append(SplitBlockFilter.empty(len(theirs)))
        made[-1].insert(hash_array(array[number * 200 : number * 200 + 200], stored=stored).present())
    return made


@pytest.mark.parametrize("array", COLUMNS.values(), ids=COLUMNS)
def test_our_filter_is_pyarrows_bit_for_bit(tmp_path: Path, array: pa.Array) -> None:
    blooms = written(tmp_path, array)
    assert blooms.filters("c") == ours(blooms, array)


@pytest.mark.parametrize("array", COLUMNS.values(), ids=COLUMNS)
def test_the_default_physical_type_is_the_one_pyarrow_chose(tmp_path: Path, array: pa.Array) -> None:
    blooms = written(tmp_path, array)
    as_stored = hash_array(array, stored=stored_type(blooms.leaf("c"), "f.parquet"))
    assert hash_array(array).hashes.tolist() == as_stored.hashes.tolist()


@pytest.mark.parametrize("name", ["decimal 9", "decimal 18", "decimal 38"])
def test_decimals_stored_as_integers(tmp_path: Path, name: str) -> None:
    blooms = written(tmp_path, COLUMNS[name], store_decimal_as_integer=True)
    assert blooms.filters("c") == ours(blooms, COLUMNS[name])
    assert all(blooms.may_contain("c", Decimal("-1.00"))[:1])


def test_unsigned_numbers_of_an_old_format_version_are_wider(tmp_path: Path) -> None:
    blooms = written(tmp_path, COLUMNS["uint32"], version="1.0")
    assert blooms.leaf("c").physical == 2
    assert blooms.filters("c") == ours(blooms, COLUMNS["uint32"])


@pytest.mark.parametrize("array", COLUMNS.values(), ids=COLUMNS)
def test_single_values_are_found_by_their_python_value(tmp_path: Path, array: pa.Array) -> None:
    blooms = written(tmp_path, array)
    for row in (0, len(array) - 3, 99):
        assert blooms.may_contain("c", array[row].as_py())[row // 200]


def test_filters_serialise_back_to_the_bytes_in_the_file(tmp_path: Path) -> None:
    blooms = written(tmp_path, COLUMNS["string"])
    whole = (tmp_path / "f.parquet").read_bytes()
    for chunk, bloom in zip(blooms.chunks("c"), blooms.filters("c"), strict=True):
        assert bloom is not None
        assert chunk.offset is not None
        assert chunk.length is not None
        assert encode_filter(bloom.to_bytes()) == whole[chunk.offset : chunk.offset + chunk.length]
