"""Reading chunksets: the columns asked for, in bounded memory, and never a wrong row from damaged bytes."""

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from needlefish.errors import CorruptError, InvalidError, NotFoundError, UnavailableError
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, Store
from needlefish.table.scan import ScanRequest, plan_scan, rows, scan_batches
from needlefish.table.snapshot import Snapshot
from needlefish.testing.faulty_store import Call, Fault, FaultyStore
from needlefish.testing.tables import append_rows, build_table, scan_table

_SCHEMA = "id int32, n int64, s string, `a.b` int32, a struct<b:int32,c:int32>"


def _rows(count: int) -> list[dict[str, Any]]:
    return [{"id": i, "n": i * 7 % 50, "s": ["red", "green", None][i % 3], "a.b": i, "a": {"b": -i, "c": i}} for i in range(count)]


@pytest.fixture
def sixty(store: RetriedStore) -> TableState:
    return build_table(store, _SCHEMA, "id", _rows(60), properties={"granule_rows": 20})


def _path(store: Store) -> str:
    (found,) = store.list("data/")
    return found.path


def test_columns_come_as_asked(store: RetriedStore, sixty: TableState) -> None:
    found, _ = scan_table(store, sixty, columns=["s", "id"], where="n = 7")
    assert found.schema == pa.schema([sixty.definition.schema.field(name, "x").to_arrow() for name in ("s", "id")])
    assert found.to_pylist() == [{"s": "green", "id": 1}, {"s": "red", "id": 51}]
    everything, _ = scan_table(store, sixty)
    assert everything.to_pylist() == _rows(60)


def test_only_the_columns_asked_for_are_read(store: RetriedStore) -> None:
    schema = "id int32, wide string"
    state = build_table(store, schema, "id", [{"id": i, "wide": random.Random(i).randbytes(500).hex()} for i in range(1000)])
    narrow, everything = store.apart(), store.apart()
    scan_table(narrow, state, columns=["id"])
    scan_table(everything, state)
    assert narrow.meter.snapshot().bytes_read < everything.meter.snapshot().bytes_read / 20


def test_a_column_whose_name_looks_like_a_path_is_itself(store: RetriedStore, sixty: TableState) -> None:
    """`a.b` is a column here, and a part of the struct `a` as well, with other values and other statistics."""
    for where, wanted in [("`a.b` = 59", [59]), ("`a.b` > 57", [58, 59]), ("`a.b` < 1", [0])]:
        found, _ = scan_table(store, sixty, columns=["id"], where=where)
        assert found["id"].to_pylist() == wanted
    assert scan_table(store, sixty, columns=["a.b"])[0]["a.b"].to_pylist() == list(range(60))
    assert scan_table(store, sixty, columns=["a"])[0].to_pylist()[1] == {"a": {"b": -1, "c": 1}}


@pytest.mark.parametrize("columns", ["id", [], ["id", "nobody"], ()])
def test_wrong_columns_are_refused(store: RetriedStore, sixty: TableState, columns: Any) -> None:
    with pytest.raises(InvalidError, match=r"columns is |columns names column 'nobody'"):
        scan_table(store, sixty, columns=columns)


def test_granules_are_pruned_by_statistics(store: RetriedStore, sixty: TableState) -> None:
    apart = store.apart()
    found, receipt = scan_table(apart, sixty, where="`a` IS NOT NULL AND id >= 45")
    assert (found.num_rows, receipt.granules_read, receipt.granules_pruned, receipt.rows_read) == (15, 1, 2, 20)
    nothing, receipt = scan_table(store, sixty, where="n > 1000 OR s IN ('blue', 'black')")
    assert (nothing.num_rows, receipt.granules_read, receipt.granules_pruned) == (0, 0, 3)


def test_a_scan_of_one_file_is_three_requests(store: RetriedStore, sixty: TableState) -> None:
    apart = store.apart()
    scan_table(apart, sixty, columns=["id"])
    usage = apart.meter.snapshot()
    # The run, which is small, the footer by its known place, and the pages of one column, close together.
    assert usage.requests == usage.get_range.requests == 3


def test_memory_is_bounded_whatever_the_size_of_the_table(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen chunksets of about 2 MB each: a few pieces of one chunkset are alive at a time."""
    monkeypatch.setattr(rows, "_PIECE_ROWS", 1_000)
    data = pa.table(
        {"id": pa.array(range(16_000), pa.int32()), "raw": pa.array([random.Random(i).randbytes(2_000) for i in range(16_000)])}
    )
    properties = {"granule_rows": 500, "chunkset_rows": 1_000}
    state = build_table(store, "id int32, raw binary", "id", data, properties=properties)
    total = data.nbytes
    del data
    before = pa.total_allocated_bytes()
    peak = seen = 0
    for batch in scan_batches(plan_scan(Snapshot(store=store, state=state), ScanRequest())):
        seen += batch.num_rows
        del batch
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert seen == 16_000
    # Four pieces of a sixteenth each, with room for their compressed bytes and the one handed out.
    assert peak < total * 10 / 16


def test_pieces_are_read_ahead_but_not_far(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    state = build_table(store, _SCHEMA, "id", _rows(40), properties={"granule_rows": 1, "chunkset_rows": 1})
    started = 0
    read = rows._read

    def counted(*args: Any) -> Any:
        nonlocal started
        started += 1
        return read(*args)

    monkeypatch.setattr(rows, "_read", counted)
    batches = scan_batches(plan_scan(Snapshot(store=store, state=state), ScanRequest()))
    taken = [started for _ in batches]
    assert len(taken) == 40
    assert all(ahead - number <= 4 for number, ahead in enumerate(taken))
    assert all(one <= other for one, other in pairwise(taken))


def test_pieces_of_a_large_chunkset_come_in_order(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_PIECE_ROWS", 7)
    state = build_table(store, _SCHEMA, "id", _rows(60), properties={"granule_rows": 5})
    found, receipt = scan_table(store, state)
    assert found["id"].to_pylist() == list(range(60))
    assert (receipt.files_read, receipt.granules_read, receipt.rows_read) == (1, 12, 60)


def test_a_missing_data_file_is_not_found_and_named(store: RetriedStore, sixty: TableState) -> None:
    path = _path(store)
    store.delete([path])
    with pytest.raises(NotFoundError, match=path):
        scan_table(store, sixty)


def test_a_store_that_goes_away_while_reading_is_unavailable(store: RetriedStore, sixty: TableState) -> None:
    def schedule(call: Call) -> Fault | None:
        return Fault.UNAVAILABLE if call.path.startswith("data/") and call.number > 2 else None

    with pytest.raises(UnavailableError):
        scan_table(FaultyStore(store, schedule), sixty)


@pytest.mark.parametrize("keep", [0, 3, 100, 0.5, -1])
def test_a_torn_data_file_is_corrupt_and_named(store: RetriedStore, sixty: TableState, keep: float) -> None:
    path = _path(store)
    whole = store.get(path)
    store.put(path, whole[: int(len(whole) * keep) if keep == 0.5 else int(keep)])
    with pytest.raises(CorruptError, match=path):
        scan_table(store, sixty)


def test_no_flipped_bit_gives_a_wrong_row(store: RetriedStore, sixty: TableState) -> None:
    """Pages and footer have checksums; what lies between them (page index, filters) a scan does not read."""
    path = _path(store)
    whole = store.get(path)
    wanted = {where: scan_table(store, sixty, where=where)[0] for where in (None, "n >= 25 AND s = 'red'")}
    corrupt = 0
    # Every 19th byte with a bit of its own, and each of the last thirty: magic and length among them.
    for at in [*range(0, len(whole), 19), *range(len(whole) - 30, len(whole))]:
        store.put(path, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        for where, rows_wanted in wanted.items():
            try:
                assert scan_table(store, sixty, where=where)[0].equals(rows_wanted), f"byte {at}"
            except CorruptError as error:
                corrupt += 1
                assert path in str(error)  # noqa: PT017
    assert corrupt > len(whole) / 19


def test_a_damaged_run_is_corrupt_and_named(store: RetriedStore, sixty: TableState) -> None:
    (run,) = store.list("_needlefish/metadata/files/")
    whole = store.get(run.path)
    for at in (20, sixty.runs[0].header_bytes + 40):
        store.put(run.path, whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(CorruptError, match=run.path):
            scan_table(store, sixty)


def test_several_runs_are_one_file_list(store: RetriedStore, sixty: TableState) -> None:
    state = sixty
    for first in range(60, 100, 10):
        state = append_rows(store, state, [row | {"id": row["id"] + first} for row in _rows(10)])
    found, receipt = scan_table(store, state, columns=["id"])
    assert sorted(found["id"].to_pylist()) == list(range(100))
    assert (receipt.files_listed, receipt.files_total, receipt.files_read) == (5, 5, 5)
