"""Filters that other engines wrote: no false negative over all values, and the false positive rate their bits predict."""

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.filters.hash import hash_array
from needlefish.index.parquet_bloom import ParquetBlooms, open_blooms, stored_type
from needlefish.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 20_000
GROUP = 5_000


def sample() -> pa.Table:
    numbers = np.random.default_rng(17).permutation(ROWS)
    amounts = [Decimal(int(n) - 500).scaleb(-2) for n in numbers]
    return pa.table(
        {
            "i32": pa.array(numbers, pa.int32()),
            "i64": pa.array(numbers * 1_000_003, pa.int64()),
            "f32": pa.array(numbers / 4, pa.float32()),
            "f64": pa.array(numbers / 7, pa.float64()),
            "text": pa.array([f"key-{n:06d}" for n in numbers]),
            "blob": pa.array([int(n).to_bytes(4, "big") for n in numbers]),
            "d9": pa.array(amounts, pa.decimal128(9, 2)),
            "d18": pa.array(amounts, pa.decimal128(18, 2)),
            "d30": pa.array(amounts, pa.decimal128(30, 2)),
            "day": pa.array([date(1990, 1, 1) + timedelta(int(n)) for n in numbers]),
            "at": pa.array([datetime(2026, 1, 1) + timedelta(seconds=int(n)) for n in numbers], pa.timestamp("us")),  # noqa: DTZ001
            "some": pa.array([None if n % 3 else int(n) for n in numbers], pa.int64()),
        }
    )


def by_pyarrow(source: str, folder: Path) -> None:
    table = pq.read_table(source)
    options = {name: {"ndv": GROUP, "fpp": 0.01} for name in table.column_names}
    pq.write_table(table, folder / "out.parquet", row_group_size=GROUP, bloom_filter_options=options)


def by_duckdb(source: str, folder: Path) -> None:
    # DuckDB makes filters for dictionary-encoded columns only, so that the limit must admit every value.
    settings = "FORMAT parquet, ROW_GROUP_SIZE 4096, STRING_DICTIONARY_PAGE_SIZE_LIMIT 10000000, DICTIONARY_SIZE_LIMIT 100000"
    duckdb.sql(f"COPY (SELECT * FROM '{source}') TO '{folder / 'out.parquet'}' ({settings})")


def by_datafusion(source: str, folder: Path) -> None:
    datafusion = pytest.importorskip("datafusion")
    context = datafusion.SessionContext()
    context.register_parquet("source", source)
    settings = f"'format.bloom_filter_on_write' 'true', 'format.max_row_group_size' '{GROUP}', 'format.bloom_filter_ndv' '{GROUP}'"
    context.sql(f"COPY source TO '{folder / 'out.parquet'}' STORED AS PARQUET OPTIONS ({settings})").collect()


@pytest.fixture
def source(tmp_path: Path) -> str:
    pq.write_table(sample(), tmp_path / "source.parquet")
    return str(tmp_path / "source.parquet")


def check_all(folder: Path, name: str, columns: set[str]) -> None:
    blooms = open_blooms(open_store(StoreConfig(uri=str(folder))), name)
    file = pq.ParquetFile(folder / name)
    assert set(blooms.columns) == columns
    assert file.metadata.num_row_groups > 1
    for column in sorted(columns):
        check_column(blooms, column, file)


def check_column(blooms: ParquetBlooms, column: str, file: pq.ParquetFile) -> None:
    stored = stored_type(blooms.leaf(column), blooms.path)
    for number, bloom in enumerate(blooms.filters(column)):
        assert bloom is not None
        hashes = hash_array(file.read_row_group(number, [column]).column(0), stored=stored).present()
        assert bloom.check(hashes).all(), f"{column}: a value of row group {number} is missing from its filter"
        assert bloom.estimated_values() == pytest.approx(len(np.unique(hashes)), rel=0.1)
        # Random hashes stand for absent values: the hash of an absent value is as good as random.
        probes = np.random.default_rng(number).integers(0, 2**64, 50_000, np.uint64)
        expected, measured = bloom.false_positive_rate(), float(bloom.check(probes).mean())
        assert expected < 0.05
        assert measured == pytest.approx(expected, abs=5 * math.sqrt(expected / len(probes)) + 1e-4)


@pytest.mark.parametrize(
    ("write", "without"),
    [(by_pyarrow, set()), (by_duckdb, {"d30"}), (by_datafusion, set())],
    ids=["pyarrow", "duckdb", "datafusion"],
)
def test_filters_of_other_writers(write: Callable[[str, Path], None], without: set[str], source: str, tmp_path: Path) -> None:
    write(source, tmp_path)
    check_all(tmp_path, "out.parquet", set(sample().column_names) - without)


def test_filters_of_spark(spark: "SparkSession", source: str, tmp_path: Path) -> None:
    columns = sample().column_names
    writer = spark.read.parquet(source).coalesce(1).write
    options = {f"parquet.bloom.filter.enabled#{name}": "true" for name in columns}
    options |= {f"parquet.bloom.filter.expected.ndv#{name}": str(GROUP) for name in columns}
    # Small row groups, looked at often: otherwise all rows fit into one.
    options |= {"parquet.block.size": "262144", "parquet.page.size.row.check.min": "100", "parquet.page.row.count.limit": "1000"}
    writer.options(**options).parquet(str(tmp_path / "spark"))
    (part,) = (tmp_path / "spark").glob("*.parquet")
    check_all(tmp_path / "spark", part.name, set(columns))


def test_values_are_found_by_name_in_every_engines_file(source: str, tmp_path: Path) -> None:
    """The scalar path, through each file's own physical types: DuckDB stores decimals as integers, pyarrow as bytes."""
    rows = sample().slice(0, 5).to_pylist()
    for write in (by_pyarrow, by_duckdb, by_datafusion):
        write(source, tmp_path)
        blooms = open_blooms(open_store(StoreConfig(uri=str(tmp_path))), "out.parquet")
        for row in rows:
            for column in blooms.columns:
                if row[column] is not None:
                    assert blooms.may_contain(column, row[column])[0], f"{write.__name__}: {column} = {row[column]}"
