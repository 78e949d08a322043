"""Eight processes append a hundred entries each to one log at once: no gap, nothing lost, nothing twice."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from needlefish.config import StoreConfig
from needlefish.model.schema import schema_from_text
from needlefish.store import open_store
from needlefish.table.create import create_table, define_table
from needlefish.testing.s3 import S3Server
from needlefish.timeline import read_newest
from needlefish.timeline.replay import read_entries

_PROCESSES = 8
_APPENDS = 100
_VERSIONS = _PROCESSES * _APPENDS
# Every twentieth answer of the store never arrives, whatever was asked.
_LOST = 0.05


@pytest.fixture(scope="module")
def writers() -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that wait for a race; starting them takes longer than a race does."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(Path(__file__).parent / "log_writer.py")]
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
    return server.config(f"log-contention-{tmp_path.name}")


def _race(writers: list["subprocess.Popen[str]"], config: StoreConfig, lost: float) -> list[dict[str, object]]:
    for number, process in enumerate(writers):
        assert process.stdin is not None
        race = {"uri": config.uri, "options": dict(config.options), "writer": number, "appends": _APPENDS, "lost": lost}
        process.stdin.write(json.dumps(race) + "\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in writers if process.stdout]


@pytest.mark.parametrize("lost", [0.0, _LOST], ids=["answered", "answers lost"])
def test_every_entry_is_there_exactly_once(writers: list["subprocess.Popen[str]"], shared: StoreConfig, lost: float) -> None:
    store = open_store(shared)
    create_table(store, define_table(schema_from_text("id string"), "id", (), {}))

    results = _race(writers, shared, lost)

    told = [version for result in results for version in result["versions"]]  # type: ignore[attr-defined]
    assert sorted(told) == list(range(1, _VERSIONS + 1))
    newest = read_newest(store)
    assert (newest.version, newest.totals.rows) == (_VERSIONS, _VERSIONS)
    entries = list(read_entries(store, 1, _VERSIONS))
    assert [entry.version for entry in entries] == list(range(_VERSIONS, 0, -1))
    assert len({entry.token for entry in entries}) == _VERSIONS
    assert Counter(entry.writer for entry in entries) == {f"writer {number}": _APPENDS for number in range(_PROCESSES)}
    by_writer = {number: set(result["versions"]) for number, result in enumerate(results)}  # type: ignore[call-overload]
    assert all(entry.version in by_writer[int(entry.writer.split()[1])] for entry in entries)
    times = [entry.timestamp_ms for entry in entries]
    assert times == sorted(times, reverse=True)
    # Without faults none is injected; with them, answers of commits themselves were lost, not just of reads.
    assert (sum(result["lost"] for result in results) > 10) == bool(lost)  # type: ignore[misc]
    # What contention costs: 5 requests for each commit on S3 and 10 on a disk, where a lone writer needs 3. A loser that
    # reads every winner's entry, or does not step back, needs 19.
    if not lost:
        assert sum(result["requests"] for result in results) < 15 * _VERSIONS  # type: ignore[misc]
