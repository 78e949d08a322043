"""Kills a process that compacts through Spark with SIGKILL, again and again; another process then cleans and compacts.

`python tests/crash/kill_compaction.py --kills 30 --out benchmarks/results/kill_compaction.json` keeps the result, which is written
only if every check held: rows right at every readable version, nothing inflight and no orphan after a clean, and the next
compaction comes to its end.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import needlefish as nf

# Run as a script, this file sees its own folder only.
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.record import machine

from needlefish.api.worker import worker_for
from needlefish.config import StoreConfig
from needlefish.model.instant import InstantId
from needlefish.model.log import TableState
from needlefish.services.clean import CleanOptions, clean
from needlefish.services.execute import execute
from needlefish.services.here_worker import here_worker
from needlefish.store import RetriedStore, open_store, sweep_staging
from needlefish.store.paths import is_staged
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.services import orphans, schedule_compaction
from needlefish.testing.tables import build_table, scan_table
from needlefish.timeline import read_newest, read_state_at
from needlefish.timeline.heartbeat import read_pulse

ROWS = 40_000
# A round replaces every so many rows, and says in `round` which one it was.
STRIDE = 8
SCHEMA = "id int64, name string, part int64, round int64"
APPLICATION = "rounds"
# A process that stopped beating is dead after a second; nothing is kept for slow readers.
PROPERTIES = {"granule_rows": 1_000, "heartbeat_seconds": 0.5, "grace_seconds": 0.0, "retained_seconds": 0.0, "retained_versions": 6}
_EXPIRY_SECONDS = 1.2
# Kills come within so many times what the first compaction of a process takes: the next ones are quicker.
_WINDOW = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill: when after the start of a compaction, what it met, what it left."""

    number: int
    after_seconds: float
    # Of the plan: requested, a stage of its attempt, being rolled back, or none.
    met: str
    cancellable: bool | None
    completed: int
    left_objects: int
    left_unfinished_writes: int
    rolled_back: int


def opened(uri: str) -> RetriedStore:
    return open_store(StoreConfig(uri=uri))


def row(number: int, round_: int) -> dict[str, object]:
    return {"id": number, "name": f"{number * 2_654_435_761 % 2**32:08x}", "part": number % 4, "round": round_}


def replaced(round_: int) -> range:
    return range(round_ % STRIDE, ROWS, STRIDE)


def expected(rounds: int) -> dict[int, int]:
    """The round of every row after so many."""
    found = dict.fromkeys(range(ROWS), 0)
    for round_ in range(max(1, rounds - STRIDE + 1), rounds + 1):
        found |= dict.fromkeys(replaced(round_), round_)
    return found


def create(uri: str) -> None:
    rows = [row(number, 0) for number in range(ROWS)]
    build_table(opened(uri), SCHEMA, "id", rows, partition_by="part", indexes=None, properties=PROPERTIES)


def rounds_in(state: TableState) -> int:
    return next((batch.number for batch in state.batches if batch.application == APPLICATION), 0)


def compact_for_ever(uri: str, most: int) -> None:
    """The victim: a round of upserts, then a compaction on Spark, immutable every other time; says when each begins and ends."""
    spark = nf.spark_session(master="local[2]")
    store = opened(uri)
    for _ in range(most):
        state = read_newest(store)
        round_ = rounds_in(state) + 1
        state, _ = upsert_table(store, state, [row(number, round_) for number in replaced(round_)], batch=(APPLICATION, round_))
        state, plan = schedule_compaction(store, state, cancellable=bool(round_ % 2))
        print("start", flush=True)
        execute(store, state, plan.id, worker_for(store, lambda: spark, here_bytes=0))
        print("done", flush=True)


@contextmanager
def victim(uri: str, most: int = 1_000_000) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, __file__, "--compact", uri, "--most", str(most)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield process
    finally:
        # The whole session, so that the JVM and its Python workers die with it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def check_rows(store: RetriedStore) -> TableState:
    """At every readable version that changed something, each row once and with the round that it must have."""
    newest = read_newest(store)
    after = None
    # The very first has no rows yet.
    for version in range(newest.version, max(newest.oldest, 1) - 1, -1):
        state = read_state_at(store, version, newest)
        if after is None or state.runs != after.runs or version == newest.oldest:
            found = scan_table(store, state, columns=["id", "round"])[0]
            rows = dict(zip(found["id"].to_pylist(), found["round"].to_pylist(), strict=True))
            assert found.num_rows == len(rows) == state.totals.visible_rows, f"version {version}"
            assert rows == expected(rounds_in(state)), f"version {version}"
        after = state
    problems = verify_table(Snapshot(store=store, state=newest)).problems
    assert not problems, problems
    return newest


def met(store: RetriedStore, state: TableState) -> tuple[str, bool | None]:
    plan = next((found for found in state.instants if found.plan is not None), None)
    if plan is None or plan.plan is None:
        return "none", None
    if plan.undone_by is not None:
        return "being rolled back", plan.plan.cancellable
    if plan.claim is None:
        return "requested", plan.plan.cancellable
    pulse = read_pulse(store, plan.claim.attempt)
    return (pulse.stage if pulse and pulse.stage else "claimed"), plan.plan.cancellable


def tidied(store: RetriedStore) -> tuple[TableState, int]:
    """After a clean, in which nobody is alive any more: nothing but plans that wait and what versions need."""
    state, result = clean(store, read_newest(store), CleanOptions())
    busy = [found for found in state.instants if found.claim is not None or found.plan is None]
    assert not busy, busy
    left = orphans(store, state)
    assert not left, sorted(left)[:10]
    return state, len(result.rolled_back)


def compacted(store: RetriedStore, state: TableState) -> TableState:
    """What waits is executed, the rest planned and executed: then no row is hidden any more."""
    plans = [found.id for found in state.instants if found.plan is not None]
    for plan in plans:
        state, result = execute(store, state, InstantId(plan), here_worker(store))
        assert not result.repeated
    if state.totals.skipped:
        state, found = schedule_compaction(store, state)
        state, _ = execute(store, state, found.id, here_worker(store))
    assert not state.totals.skipped
    return state


def unfinished(uri: str) -> int:
    return sum(is_staged(str(path.relative_to(uri))) for path in Path(uri).rglob("*") if path.is_file())


def in_peace(uri: str) -> float:
    """One compaction that nobody kills; the seconds that it takes on this machine."""
    with victim(uri, most=1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "start\n"
        started = time.monotonic()
        assert process.stdout.read() == "done\n"
        seconds = time.monotonic() - started
    check_rows(opened(uri))
    return seconds


def kill_once(uri: str, number: int, wait: float) -> Kill:
    with victim(uri) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "start\n"
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGKILL)
        said = process.stdout.read().splitlines()
    store = opened(uri)
    state = check_rows(store)
    stage, cancellable = met(store, state)
    left, staged = len(orphans(store, state)), unfinished(uri)
    time.sleep(_EXPIRY_SECONDS)
    state, rolled_back = tidied(store)
    compacted(store, state)
    check_rows(store)
    # Plans are put before the log speaks of them: a clean leaves young ones alone.
    time.sleep(_EXPIRY_SECONDS)
    tidied(store)
    # No clean takes a write for dead that is so young.
    sweep_staging(store.config, time.time_ns() // 1_000_000)
    assert not unfinished(uri)
    return Kill(
        number=number,
        after_seconds=round(wait, 3),
        met=stage,
        cancellable=cancellable,
        completed=said.count("done"),
        left_objects=left,
        left_unfinished_writes=staged,
        rolled_back=rolled_back,
    )


def run(uri: str, kills: int, seed: int) -> list[Kill]:
    """All kills on one table, so that each also meets what the ones before it left behind."""
    create(uri)
    window = _WINDOW * in_peace(uri)
    chance = random.Random(seed)
    done = []
    for number in range(kills):
        done.append(kill_once(uri, number, chance.uniform(0, window)))
        print(done[-1], flush=True)
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=20261116)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compact", help=argparse.SUPPRESS)
    parser.add_argument("--most", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compact:
        compact_for_ever(arguments.compact, arguments.most)
        return
    before = machine()
    with tempfile.TemporaryDirectory() as folder:
        kills = run(f"{folder}/table", arguments.kills, arguments.seed)
    summary = {"kills": len(kills), "seed": arguments.seed, "met": dict(Counter(kill.met for kill in kills))}
    print(json.dumps(summary))
    if arguments.out:
        arguments.out.write_text(json.dumps({"machine": before, **summary, "each": [asdict(kill) for kill in kills]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
