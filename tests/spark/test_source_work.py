"""Counted work: what `WHERE` reads through the data source, beside what a find of the same values reads, over 2,000 files."""

import hashlib
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, IsNotNull

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.spark.source.options import read_options
from needlefish.spark.source.reader import PushingReader, read_schema
from needlefish.store import RetriedStore, open_store
from needlefish.table.scan import ScanReceipt
from needlefish.table.snapshot import Snapshot
from needlefish.table.source import Piece, decode_pieces, new_receipt, read_pieces
from needlefish.testing.tables import append_rows, build_table, find_table

FILES = 2_000
ROWS = 12
SCHEMA = "request_id string, part int64, n int64, user_id int64, note string"
Row = dict[str, object]


def key(number: int) -> str:
    return hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A table on disk. Its files have three granules each, and keys that say nothing about which file they are in."""

    uri: str
    store: RetriedStore
    state: TableState

    def reader(self, filters: Sequence[Filter], **options: str) -> PushingReader:
        """As Spark makes one, with its filters pushed."""
        parsed = read_options({"path": self.uri, **options})
        reader = PushingReader(parsed, self.state, read_schema(parsed, self.state))
        assert list(reader.pushFilters(list(filters))) == [], "every filter is answered"
        return reader

    def read(self, filters: Sequence[Filter], **options: str) -> tuple[list[Row], ScanReceipt, list[Piece]]:
        """The rows, what reading them took, and the pieces that the tasks were given."""
        reader = self.reader(filters, **options)
        pieces = [piece for partition in reader.partitions() for piece in decode_pieces(partition.value)]
        receipt = new_receipt(reader.request)
        batches = list(read_pieces(Snapshot(store=self.store.apart(), state=self.state), reader.request, pieces, receipt))
        return pa.Table.from_batches(batches, schema=reader.request.output).to_pylist(), receipt, pieces


def rows_of(files: range) -> pa.Table:
    numbers = [part * ROWS + at for part in files for at in range(ROWS)]
    return pa.table(
        {
            "request_id": [key(n) for n in numbers],
            "part": [n // ROWS for n in numbers],
            "n": numbers,
            "user_id": [n * 7919 % 5_003 for n in numbers],
            "note": [key(-n) for n in numbers],
        }
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    uri = str(tmp_path_factory.mktemp("work") / "table")
    store = open_store(StoreConfig(uri=uri))
    indexes = [nf.PointIndex("request_id"), nf.PointIndex("user_id")]
    first, second = rows_of(range(FILES // 2)), rows_of(range(FILES // 2, FILES))
    state = build_table(store, SCHEMA, "request_id", first, partition_by=["part"], indexes=indexes, properties={"granule_rows": 4})
    state = append_rows(store, state, second)
    assert state.totals.files == FILES
    return Built(uri=uri, store=store, state=state)


@pytest.mark.parametrize("number", [0, 11_999, 23_999])
def test_an_equality_reads_the_granules_that_a_find_reads(built: Built, number: int) -> None:
    found, by_find = find_table(built.store, built.state, request_id=key(number))
    rows, receipt, pieces = built.read([IsNotNull(("request_id",)), EqualTo(("request_id",), key(number))])
    assert rows == found.to_pylist()
    assert [row["n"] for row in rows] == [number]
    assert (receipt.granules_read, receipt.rows_read, len(pieces)) == (by_find.granules_read, by_find.rows_read, 1)
    assert receipt.granules_read == 1


@pytest.mark.parametrize(
    ("column", "values"), [("request_id", [key(n) for n in range(0, 24_000, 24)]), ("user_id", list(range(0, 5_000, 50)))]
)
def test_many_values_read_the_granules_that_a_find_reads(built: Built, column: str, values: list[object]) -> None:
    found, by_find = find_table(built.store, built.state, **{column: values})
    rows, receipt, _ = built.read([In((column,), tuple(values))])
    assert sorted(row["n"] for row in rows) == sorted(found["n"].to_pylist())
    assert len(rows) >= len(values)
    assert (receipt.granules_read, receipt.rows_read) == (by_find.granules_read, by_find.rows_read)


def test_an_absent_value_reads_nothing(built: Built) -> None:
    rows, receipt, pieces = built.read([EqualTo(("request_id",), "8" * 32)])
    assert (rows, receipt.granules_read, pieces) == ([], 0, [])


def test_other_conditions_are_asked_of_the_rows_that_were_found(built: Built) -> None:
    filters: list[Filter] = [EqualTo(("user_id",), 7919 * 5 % 5_003), GreaterThanOrEqual(("n",), 6_000)]
    found, by_find = find_table(built.store, built.state, user_id=7919 * 5 % 5_003)
    rows, receipt, _ = built.read(filters)
    assert [row["n"] for row in rows] == [n for n in found["n"].to_pylist() if n >= 6_000]
    assert 0 < len(rows) < found.num_rows
    assert receipt.granules_read == by_find.granules_read


def test_the_condition_of_the_option_is_read_alike(built: Built) -> None:
    rows, receipt, _ = built.read([], where=f"request_id = '{key(77)}'", columns="n")
    assert (rows, receipt.granules_read) == ([{"n": 77}], 1)


def test_a_range_opens_the_files_whose_statistics_leave_room(built: Built) -> None:
    rows, receipt, pieces = built.read([GreaterThanOrEqual(("n",), 23_990)])
    assert [row["n"] for row in sorted(rows, key=lambda row: str(row["n"]))] == list(range(23_990, 24_000))
    assert (len(pieces), receipt.files_read) == (1, 1)


def test_what_a_task_is_given_is_small(built: Built) -> None:
    """Infos of chunksets, never values: those are in the request, once."""
    (partition,) = built.reader([EqualTo(("request_id",), key(5))]).partitions()
    assert len(partition.value) < 1_500
    shares = [partition.value for partition in built.reader([]).partitions()]
    assert len(shares) > 8, "2,000 files are dealt out"
    assert sum(map(len, shares)) < 1_000 * FILES


def spoil_the_rest(built: Built, pieces: Sequence[Piece]) -> None:
    """Removes every data file that is in no piece, and in those that are every granule that is not."""
    kept = {piece.info.path: piece for piece in pieces}
    root = Path(built.uri)
    for path in (root / "data").rglob("*.parquet"):
        piece = kept.get(str(path.relative_to(root)))
        if piece is None:
            path.unlink()
            continue
        assert piece.granules is not None
        with path.open("r+b") as file:
            for number in set(range(len(piece.info.granules))) - set(piece.granules):
                granule = piece.info.granules[number]
                file.seek(granule.offset)
                file.write(bytes(granule.bytes))


def test_spark_reads_nothing_else(spark: SparkSession, built: Built, tmp_path: Path) -> None:
    """What neither a single value nor a thousand need is gone from the disk; a read of it would fail."""
    uri = str(tmp_path / "table")
    shutil.copytree(built.uri, uri)
    built = replace(built, uri=uri, store=open_store(StoreConfig(uri=uri)))
    numbers = random.Random(8).sample(range(FILES * ROWS), 1_000)
    values = [key(n) for n in numbers]
    _, by_find = find_table(built.store, built.state, request_id=values)
    _, receipt, pieces = built.read([In(("request_id",), tuple(values))])
    assert receipt.granules_read == by_find.granules_read
    spoil_the_rest(built, pieces)

    def load(**options: object) -> DataFrame:
        return spark.read.format("needlefish").options(**options).load(uri)

    nf.register(spark)
    listed = ", ".join(f"'{value}'" for value in values)
    found = load(pushdown=True).where(f"request_id IN ({listed})").select("n").collect()
    assert sorted(row.n for row in found) == sorted(numbers)
    assert [row.n for row in load(pushdown=True).where(f"request_id = '{values[0]}'").collect()] == [numbers[0]]
    assert [row.n for row in load(where=f"request_id = '{values[1]}'").collect()] == [numbers[1]]
    with pytest.raises(Exception, match=r"NotFoundError|CorruptError"):
        load(pushdown=True).where("n >= 0").collect()
