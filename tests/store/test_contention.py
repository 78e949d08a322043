"""Eight processes write the same hundred names at once: every name has exactly one winner, and its bytes."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from needlefish.config import StoreConfig
from needlefish.store import open_store
from needlefish.testing.s3 import S3Server

_PROCESSES = 8
_NAMES = 100

# The writers are forked from a process that has imported everything but used nothing: obstore's threads start in each of them.
_RACE = """
import json, multiprocessing, sys
from needlefish.config import StoreConfig
from needlefish.errors import AlreadyExistsError
from needlefish.store import open_store

uri, options, processes, names = json.loads(sys.argv[1])
fork = multiprocessing.get_context("fork")
start, results = fork.Barrier(processes), fork.Queue()

def write(writer):
    store = open_store(StoreConfig(uri=uri, options=options))
    won, lost = [], []
    start.wait()
    for number in range(1, names + 1):
        try:
            store.put_if_absent(f"log/{number:020}.json", str(writer).encode())
            won.append(number)
        except AlreadyExistsError:
            lost.append(number)
    results.put((writer, won, lost))

writers = [fork.Process(target=write, args=(writer,)) for writer in range(processes)]
for process in writers:
    process.start()
print(json.dumps([results.get() for _ in writers]))
for process in writers:
    process.join()
"""


@pytest.fixture(params=["local", "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str) -> StoreConfig:
    if request.param == "local":
        return StoreConfig(uri=str(tmp_path / "table"))
    server: S3Server = request.getfixturevalue("s3")
    return server.config(fresh_name)


def _race(config: StoreConfig) -> dict[int, tuple[list[int], list[int]]]:
    """What each writer won and lost."""
    given = json.dumps([config.uri, dict(config.options), _PROCESSES, _NAMES])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", _RACE, given], env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return {writer: (won, lost) for writer, won, lost in json.loads(done.stdout)}


def test_one_winner_for_every_name(shared: StoreConfig) -> None:
    results = _race(shared)
    assert len(results) == _PROCESSES
    wins = Counter(number for won, _ in results.values() for number in won)
    assert wins == Counter(range(1, _NAMES + 1))
    assert sum(len(lost) for _, lost in results.values()) == _NAMES * (_PROCESSES - 1)
    store = open_store(shared)
    stored = {int(Path(info.path).stem): int(store.get(info.path)) for info in store.list("log/")}
    assert stored == {number: writer for writer, (won, _) in results.items() for number in won}
