"""Filters in our files are used by Spark and DuckDB: row groups are skipped, shown by the engines' own counters."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.filters.hash import hash_array
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.bloom import encode_filter
from needlefish.index.parquet_bloom import ParquetBlooms, open_blooms
from needlefish.store import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUP = 5_000
GROUPS = 8
# Even numbers in random order: odd ones lie inside every row group's range, so that statistics cannot rule them out.
NUMBERS = np.random.default_rng(23).permutation(GROUP * GROUPS * 10)[: GROUP * GROUPS] * 2


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("readers") / "ours.parquet"
    table = pa.table({"id": NUMBERS, "name": [f"n{n}" for n in NUMBERS]})
    options = {name: {"ndv": GROUP, "fpp": 0.01} for name in ("id", "name")}
    # Without dictionaries no engine can skip by them instead.
    pq.write_table(table, path, row_group_size=GROUP, use_dictionary=False, bloom_filter_options=options)
    return path


def blooms_of(file: Path) -> ParquetBlooms:
    return open_blooms(open_store(StoreConfig(uri=str(file.parent))), file.name)


def rebuilt(file: Path, folder: Path) -> Path:
    """The same file with every filter made and written by us in place of the writer's."""
    data, blooms = bytearray(file.read_bytes()), blooms_of(file)
    for column in ("id", "name"):
        values = pq.read_table(file, columns=[column]).column(0)
        for chunk, theirs in zip(blooms.chunks(column), blooms.filters(column), strict=True):
            assert theirs is not None
            assert chunk.offset is not None
            assert chunk.length is not None
            ours = SplitBlockFilter.empty(len(theirs))
            ours.insert(hash_array(values.slice(chunk.row_group * GROUP, GROUP)).present())
            data[chunk.offset : chunk.offset + chunk.length] = encode_filter(ours.to_bytes())
    (folder / "rebuilt.parquet").write_bytes(data)
    return folder / "rebuilt.parquet"


def emptied(file: Path, folder: Path) -> Path:
    """The same file with filters that hold nothing: whoever uses them finds no row any more."""
    data, blooms = bytearray(file.read_bytes()), blooms_of(file)
    for chunk in blooms.chunks("id"):
        assert chunk.offset is not None
        assert chunk.length is not None
        size = chunk.length - 16
        data[chunk.offset : chunk.offset + chunk.length] = encode_filter(SplitBlockFilter.empty(size // 32).to_bytes())
    (folder / "emptied.parquet").write_bytes(data)
    return folder / "emptied.parquet"


def excluded_by_duckdb(file: Path, column: str, value: object) -> list[bool]:
    rows = duckdb.execute(
        "SELECT row_group_id, bloom_filter_excludes FROM parquet_bloom_probe(?, ?, ?) ORDER BY 1", [str(file), column, value]
    )
    return [excludes for _, excludes in rows.fetchall()]


def test_duckdb_excludes_exactly_what_we_exclude(file: Path, tmp_path: Path) -> None:
    for path in (file, rebuilt(file, tmp_path)):
        blooms = blooms_of(path)
        for value in [*NUMBERS[::4000].tolist(), *range(1, 60, 2)]:
            assert excluded_by_duckdb(path, "id", value) == [not may for may in blooms.may_contain("id", value)]
            assert excluded_by_duckdb(path, "name", f"n{value}") == [not may for may in blooms.may_contain("name", f"n{value}")]


def test_duckdb_believes_the_bytes_that_we_write(file: Path, tmp_path: Path) -> None:
    value = int(NUMBERS[7])
    assert duckdb.sql(f"SELECT count(*) FROM '{file}' WHERE id = {value}").fetchall() == [(1,)]
    assert duckdb.sql(f"SELECT count(*) FROM '{emptied(file, tmp_path)}' WHERE id = {value}").fetchall() == [(0,)]


def scanned_rows(frame: "DataFrame") -> int:
    """What Spark's own scan counted: the rows of all row groups that it did not skip."""
    frame.collect()
    return int(_scan(frame._jdf.queryExecution().executedPlan()).metrics().apply("numOutputRows").value())


def _scan(plan: Any) -> Any:
    if "AdaptiveSparkPlan" in plan.getClass().getSimpleName():
        return _scan(plan.executedPlan())
    return plan if "Scan" in plan.getClass().getSimpleName() else _scan(plan.children().apply(0))


@pytest.mark.parametrize("version", ["pyarrow's filters", "our filters"])
def test_spark_skips_row_groups_by_our_filters(spark: "SparkSession", file: Path, tmp_path: Path, version: str) -> None:
    path = file if version == "pyarrow's filters" else rebuilt(file, tmp_path)
    blooms = blooms_of(path)
    for value in (int(NUMBERS[12_345]), 400_001):
        expected = GROUP * sum(blooms.may_contain("id", value))
        with_filters = spark.read.option("parquet.filter.bloom.enabled", "true").parquet(str(path))
        without = spark.read.option("parquet.filter.bloom.enabled", "false").parquet(str(path))
        assert scanned_rows(with_filters.where(f"id = {value}")) == expected
        assert scanned_rows(without.where(f"id = {value}")) == GROUP * GROUPS
        assert expected < GROUP * GROUPS / 2


def test_spark_believes_the_bytes_that_we_write(spark: "SparkSession", file: Path, tmp_path: Path) -> None:
    value = int(NUMBERS[7])
    assert spark.read.parquet(str(file)).where(f"id = {value}").count() == 1
    assert spark.read.parquet(str(emptied(file, tmp_path))).where(f"id = {value}").count() == 0
