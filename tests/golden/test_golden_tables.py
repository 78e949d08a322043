"""Golden tables: what an earlier release wrote is read the same for ever."""

import json
from pathlib import Path

import pytest

from needlefish.config import StoreConfig
from needlefish.store import RetriedStore, open_store
from needlefish.table.history import read_history
from needlefish.testing.tables import scan_table
from needlefish.timeline import read_newest, read_state_at, version_at_time

_FORMATS = sorted(Path(__file__).parent.glob("format-*"))


@pytest.fixture(params=_FORMATS, ids=[folder.name for folder in _FORMATS])
def golden(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


def _open(folder: Path) -> RetriedStore:
    return open_store(StoreConfig(uri=str(folder / "table")))


def test_there_is_a_golden_table() -> None:
    assert [folder.name for folder in _FORMATS] == ["format-1"]


def test_every_row_is_read_as_it_was_written(golden: Path) -> None:
    store = _open(golden)
    found, _ = scan_table(store, read_newest(store))
    shown = sorted(({name: repr(value) for name, value in row.items()} for row in found.to_pylist()), key=lambda row: row["id"])
    assert shown == json.loads((golden / "rows.json").read_text())


def test_its_versions_open(golden: Path) -> None:
    store = _open(golden)
    newest = read_newest(store)
    assert [entry.action for entry in read_history(store, newest)] == ["append", "append", "create"]
    rows = [scan_table(store, read_state_at(store, version, newest))[0].num_rows for version in range(3)]
    assert rows == [0, 10, 20]
    assert version_at_time(store, newest.timestamp_ms, newest) == 2


def test_its_partitions_and_keys_prune(golden: Path) -> None:
    store = _open(golden)
    newest = read_newest(store)
    found, receipt = scan_table(store, newest, where="ts >= '1970-01-01' AND ts < '1970-01-02' AND host = 'b/c'")
    assert (sorted(found["id"].to_pylist()), receipt.mode) == (["key-0004", "key-0005"], "filtered scan")
    assert receipt.files_read < receipt.files_total
    one, receipt = scan_table(store, newest, key_range=("key-0010", "key-0011"), columns=["id", "d"])
    assert sorted(one["id"].to_pylist()) == ["key-0010", "key-0011"]


def test_reading_changes_nothing(golden: Path) -> None:
    store = _open(golden)
    scan_table(store, read_newest(store))
    usage = store.meter.snapshot()
    assert (usage.put.requests, usage.put_if_absent.requests, usage.delete.requests) == (0, 0, 0)


def test_it_is_small(golden: Path) -> None:
    assert sum(path.stat().st_size for path in golden.rglob("*") if path.is_file()) < 200_000
