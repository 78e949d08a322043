"""Four processes change overlapping keys at once: every key is visible once, with what the order of the log explains."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.store import RetriedStore, open_store
from needlefish.table.history import read_history
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.s3 import S3Server
from needlefish.testing.tables import build_table, find_table, scan_table
from needlefish.timeline import read_newest

_PROCESSES = 4
_ROUNDS = 5
_IDS = 120
_KEYS = 40
Row = dict[str, Any]
Writers = list["subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    """Processes that wait for a race; starting them takes longer than a race does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(Path(__file__).parent / "upsert_writer.py")]
    started = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(_PROCESSES)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    yield started
    for process in started:
        process.communicate()


@pytest.fixture(params=["local", "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> StoreConfig:
    if request.param == "local":
        return StoreConfig(uri=str(tmp_path / "table"))
    server: S3Server = request.getfixturevalue("s3")
    return server.config(f"upsert-contention-{tmp_path.name}")


def _race(writers: Writers, config: StoreConfig, **options: Any) -> list[dict[str, Any]]:
    for number, process in enumerate(writers):
        assert process.stdin is not None
        own = {name: value[number] if name == "host" else value for name, value in options.items()}
        race = {"uri": config.uri, "options": dict(config.options), "writer": number, "rounds": _ROUNDS, "ids": _IDS, "keys": _KEYS, **own}
        process.stdin.write(json.dumps(race) + "\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in writers if process.stdout]


def _build(config: StoreConfig, **options: Any) -> RetriedStore:
    store = open_store(config)
    rows = [{"id": id_, "host": "ab"[id_ % 2], "n": 50, "s": "first"} for id_ in range(0, _IDS, 2)]
    schema = "id int64, host string, n int64, s string"
    build_table(store, schema, "id", rows, properties={"chunkset_rows": 50, "granule_rows": 10}, **options)
    return store


def _in_order(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    changes = [change for result in results for change in result["changes"] if change["version"] is not None]
    return sorted(changes, key=lambda change: int(change["version"]))


def _changed(store: RetriedStore) -> list[int]:
    """The versions that are more than steps, oldest first."""
    return [entry.version for entry in read_history(store, read_newest(store))][::-1]


def _replay(rows: dict[int, Row], change: dict[str, Any]) -> list[int]:
    """One commit on top of those before it, and what it should have said of itself."""
    before = dict(rows)
    late = 0
    for row in change["rows"]:
        stored = before.get(row["id"])
        if change["kind"] == "delete":
            rows.pop(row["id"], None)
        elif change["kind"] == "ordered" and stored is not None and stored["n"] > row["n"]:
            late += 1
        else:
            rows[row["id"]] = row
    known = sum(row["id"] in before for row in change["rows"])
    return [known] if change["kind"] == "delete" else [len(change["rows"]) - known, known - late, late]


@pytest.mark.parametrize("kinds", [["upsert"], ["ordered"], ["upsert", "ordered", "ordered", "delete"]], ids=["later", "greatest", "mixed"])
def test_the_log_explains_what_is_visible(writers: Writers, shared: StoreConfig, kinds: list[str]) -> None:
    store = _build(shared, partition_by="host", indexes=None)
    first = scan_table(store, read_newest(store))[0].to_pylist()

    results = _race(writers, shared, kinds=kinds)

    newest = read_newest(store)
    changes = _in_order(results)
    # None is lost, and none is there that nobody made.
    assert [change["version"] for change in changes] == _changed(store)[2:]
    assert kinds != ["upsert"] or len(changes) == _PROCESSES * _ROUNDS
    expected = {row["id"]: row for row in first}
    for change in changes:
        assert _replay(expected, change) == change.get("counts", [change.get("deleted")])
    visible = scan_table(store, newest)[0].to_pylist()
    assert len(visible) == len(expected) == newest.totals.visible_rows
    assert {row["id"]: row for row in visible} == expected
    found = find_table(store, newest, id=list(range(_IDS)))[0].to_pylist()
    assert sorted(found, key=lambda row: int(row["id"])) == sorted(visible, key=lambda row: int(row["id"]))
    assert not verify_table(Snapshot(store=store, state=newest)).problems
    # They did meet, and every one of them says that it was compared with all that came before it.
    assert sum(change["healed"] for change in changes) > 0
    assert all(entry.prev_max == entry.version - 1 for entry in read_history(store, newest) if entry.version > 1)


def test_writers_in_different_partitions_do_not_compare(writers: Writers, shared: StoreConfig) -> None:
    store = open_store(shared)
    build_table(store, "id int64, host string, n int64, s string", "id", partition_by="host", properties={"chunkset_rows": 50})
    hosts = [f"h{number}" for number in range(_PROCESSES)]

    results = _race(writers, shared, kinds=["upsert"], host=hosts)

    changed = _changed(store)[1:]
    assert [change["version"] for change in _in_order(results)] == changed
    assert len(changed) == _PROCESSES * _ROUNDS
    # They did race, or their versions would come in blocks; still nobody opened a file of another.
    own = [[changed.index(change["version"]) for change in result["changes"]] for result in results]
    assert any(places != list(range(places[0], places[0] + _ROUNDS)) for places in own)
    assert [change["healed"] for result in results for change in result["changes"]] == [0] * (_PROCESSES * _ROUNDS)
    for host, result in zip(hosts, results, strict=True):
        assert result["read"]
        assert all(path.startswith(f"data/host={host}/") for path in result["read"])
