"""A Parquet file read through a footer that is in memory, by one find after the other and by several at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from needlefish.config import StoreConfig
from needlefish.runtime import SYSTEM
from needlefish.store import ByteRange, RetriedStore, open_store
from needlefish.table.parquet_reader import ParquetReader

ROWS = 100
GROUPS = 12


@pytest.fixture
def store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://parquet-reader-{SYSTEM.new_id()}"))


def written(store: RetriedStore, columns: int) -> tuple[pa.Table, bytes, int]:
    """The rows, the footer, and the size of the file that ends in it."""
    rows = pa.table({f"c{number:03}": pa.array(range(number, number + ROWS * GROUPS), pa.int64()) for number in range(columns)})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=ROWS)
    data = sink.getvalue().to_pybytes()
    store.put("file.parquet", data)
    return rows, data[-int.from_bytes(data[-8:-4], "little") - 8 :], len(data)


# Footers of some 11 and 440 KiB: pyarrow looks for one in the last 64 KiB first.
@pytest.mark.parametrize("columns", [5, 200])
def test_a_footer_at_hand_costs_no_request(store: RetriedStore, columns: int) -> None:
    rows, footer, size = written(store, columns)
    assert (len(footer) > 64 * 1024) == (columns == 200)
    asking = store.apart()
    reader = ParquetReader(asking, "file.parquet", size, footer)
    assert asking.meter.snapshot().requests == 0
    assert (reader.metadata.num_rows, reader.metadata.num_row_groups) == (rows.num_rows, GROUPS)
    names = ["c003", "c001"]
    spans = reader.spans([4, 7], names)
    found = reader.read(asking, [4, 7], names, spans)
    expected = pa.concat_tables([rows.slice(4 * ROWS, ROWS), rows.slice(7 * ROWS, ROWS)]).select(["c001", "c003"])
    assert found.select(["c001", "c003"]).equals(expected)
    assert asking.meter.snapshot().bytes_read == sum(span.length for span in spans) < size / 4


def test_each_read_is_paid_by_the_store_that_it_brings(store: RetriedStore) -> None:
    rows, footer, size = written(store, 3)
    first, second = store.apart(), store.apart()
    reader = ParquetReader(first, "file.parquet", size, footer)
    for payer, group in ((first, 1), (second, 2), (first, 3)):
        before = payer.meter.snapshot()
        assert reader.read(payer, [group], ["c000"], reader.spans([group], ["c000"])).equals(
            rows.slice(group * ROWS, ROWS).select(["c000"])
        )
        assert (payer.meter.snapshot() - before).requests == 1
    # What nobody foresaw is a request of whoever reads, not of the one before.
    before = second.meter.snapshot()
    reader.read(second, [5], ["c000", "c001"], [ByteRange(0, 4)])
    assert (second.meter.snapshot() - before).requests == 3
    assert first.meter.snapshot().requests == 2


def test_threads_share_a_reader(store: RetriedStore) -> None:
    rows, footer, size = written(store, 3)
    reader = ParquetReader(store, "file.parquet", size, footer)
    together = Barrier(4)

    def read(group: int) -> bool:
        together.wait()
        return all(
            reader.read(store.apart(), [group], ["c001"], reader.spans([group], ["c001"])).equals(
                rows.slice(group * ROWS, ROWS).select(["c001"])
            )
            for _ in range(50)
        )

    with ThreadPoolExecutor(max_workers=4) as pool:
        assert all(pool.map(read, range(4)))
    # Nobody is left holding it.
    assert reader.read(store, [9], ["c002"], reader.spans([9], ["c002"])).num_rows == ROWS
