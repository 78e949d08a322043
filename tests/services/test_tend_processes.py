"""Real loops in processes of their own: side by side on one table beside a writer, and told to leave by a signal."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from needlefish.config import StoreConfig
from needlefish.format.log_entry import ROOT
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.services import entries_of, orphans
from needlefish.testing.tables import append_rows, build_table, scan_table
from needlefish.timeline import read_newest
from needlefish.timeline.heartbeat import heartbeat_path

SLOW = str(Path(__file__).with_name("slow_tend.py"))
ROWS = 200


@pytest.fixture
def store(uri: str) -> RetriedStore:
    """200 rows in ten small files, a tenth of them hidden."""
    found = open_store(StoreConfig(uri=uri))
    state = build_table(found, "id string, n int64", "id", properties={"granule_rows": 10, "chunkset_rows": 80})
    for first in range(0, ROWS, 20):
        state = append_rows(found, state, [row(number, 0) for number in range(first, first + 20)])
    upsert_table(found, state, [row(number, 1) for number in range(0, ROWS, 10)])
    return found


def row(number: int, n: int) -> dict[str, object]:
    return {"id": f"k{number:04}", "n": n}


@contextmanager
def process(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    started = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield started
    finally:
        started.kill()
        started.wait()
        assert started.stdout is not None
        started.stdout.close()


def lines(started: "subprocess.Popen[str]") -> Iterator[str]:
    assert started.stdout is not None
    return iter(started.stdout.readline, "")


def check(store: RetriedStore, rows: dict[str, int]) -> TableState:
    """Every row once and as it was last written, nothing inflight, no plan completed twice."""
    state = read_newest(store)
    found = scan_table(store, state)[0].to_pylist()
    assert len(found) == len(rows)
    assert {one["id"]: one["n"] for one in found} == rows
    assert verify_table(Snapshot(store=store, state=state)).problems == ()
    assert [one for one in state.instants if one.claim is not None] == []
    ended = Counter(
        entry.instant.id for entry in entries_of(store, state) if entry.instant is not None and entry.instant.step == "completed"
    )
    assert [instant for instant, times in ended.items() if times > 1] == []
    return state


def compacted(store: RetriedStore) -> TableState:
    """When a loop has got to work."""
    for _ in range(1_000):
        state = read_newest(store)
        if any(entry.action == "compaction" for entry in entries_of(store, state)):
            return state
        SYSTEM.clock.sleep(0.1)
    raise AssertionError("no loop has compacted anything")


def written(changed: int = 1) -> dict[str, int]:
    return {f"k{number:04}": changed if number % 10 == 0 else 0 for number in range(ROWS)}


def test_two_loops_beside_a_writer(store: RetriedStore) -> None:
    """The writer is never refused, and every plan is completed at most once."""
    line = ("-m", "needlefish", "tend", store.uri, "--every", "0.05s", "--clean-every", "0.5s")
    rows = written()
    with process(*line) as one, process(*line) as other:
        state = compacted(store)
        for turn in range(2, 14):
            chosen = [number for number in range(ROWS) if number % 13 == turn % 13]
            state, result = upsert_table(store, state, [row(number, turn) for number in chosen])
            rows |= {f"k{number:04}": turn for number in chosen}
            assert result.replaced == len(chosen)
        for found in (one, other):
            found.send_signal(signal.SIGTERM)
        said = [found.communicate(timeout=120)[0] for found in (one, other)]
        assert [found.returncode for found in (one, other)] == [0, 0], said
    state = check(store, rows)
    actions = Counter(entry.action for entry in entries_of(store, state))
    assert actions["upsert"] == 13
    assert actions["compaction"] >= 1
    assert not any("failed" in text for text in said), said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_lets_the_piece_at_hand_finish(store: RetriedStore, tmp_path: Path, number: signal.Signals) -> None:
    go = tmp_path / "go"
    with process(SLOW, store.uri, "60", str(go)) as loop:
        assert next(lines(loop)) == "writing\n"
        loop.send_signal(number)
        go.touch()
        said = loop.communicate(timeout=120)[0]
    assert loop.returncode == 0, said
    assert " compaction  " in said.splitlines()[0]
    state = check(store, written())
    assert state.instants == ()
    assert state.totals.skipped == 0


@pytest.mark.parametrize("patience", ["0", "60"], ids=["without patience", "a second signal"])
def test_a_piece_that_does_not_finish_is_undone(store: RetriedStore, tmp_path: Path, patience: str) -> None:
    before = read_newest(store)
    with process(SLOW, store.uri, patience, str(tmp_path / "never")) as loop:
        assert next(lines(loop)) == "writing\n"
        # Its files are there, and not yet true.
        assert orphans(store, read_newest(store)) != set()
        loop.send_signal(signal.SIGTERM)
        if patience != "0":
            loop.send_signal(signal.SIGINT)
        said = loop.communicate(timeout=120)[0]
    assert loop.returncode == 0, said
    assert said.splitlines()[0].endswith("compaction  undone: stopped before its end")
    state = check(store, written())
    assert state.instants == ()
    assert state.totals == before.totals
    assert {path for path in orphans(store, state) if not path.startswith(f"{ROOT}plans/")} == set()


def test_a_killed_loop_is_undone_by_the_next_when_its_heart_has_stopped(store: RetriedStore, tmp_path: Path) -> None:
    with process(SLOW, store.uri, "60", str(tmp_path / "never")) as loop:
        assert next(lines(loop)) == "writing\n"
        loop.send_signal(signal.SIGKILL)
        loop.wait()
    left = [found for found in read_newest(store).instants if found.claim is not None]
    assert [found.action for found in left] == ["compaction"]
    assert once(store) == ["merge"], "its heart may still beat"
    attempt = left[0].claim.attempt if left[0].claim is not None else ""
    # Two hours without a beat, as the store sees it.
    heartbeat = store.local_path(heartbeat_path(attempt))
    assert heartbeat is not None
    os.utime(heartbeat, (0, os.stat(heartbeat).st_mtime - 7_200))
    assert once(store)[:2] == ["rollback", "compaction"]
    state = check(store, written())
    assert (state.instants, state.totals.skipped) == ((), 0)
    assert not [path for path in orphans(store, state) if attempt in path]


def once(store: RetriedStore) -> list[str]:
    """What one round of a loop in another process did."""
    with process("-m", "needlefish", "tend", store.uri, "--once", "--json") as looking:
        said = looking.communicate(timeout=120)[0]
    assert looking.returncode == 0, said
    return [json.loads(line)["action"] for line in said.splitlines()]
