"""The same stream of upserts alone and beside a process that compacts all the time: `python -m benchmarks.beside --upserts 150`.

Counted are the requests of the stream, numbers of the log that it lost to others, rounds of healing, and upserts that failed: none may.
Seconds are told as well, but on a machine with two cores they say how the cores were shared. The result goes to
benchmarks/results/beside.json. Exits with 1 if requests grow by more than 15% or an upsert failed.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from benchmarks.record import console, keep, machine
from benchmarks.soak.place import Place, opened
from needlefish.errors import NeedlefishError
from needlefish.services.here_worker import here_worker
from needlefish.services.merge import tidy
from needlefish.services.stopping import Stop
from needlefish.services.tend import Event, TendedTable, TendOptions
from needlefish.store import RetriedStore
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import upsert_table
from needlefish.testing.tables import build_table, scan_table
from needlefish.timeline import read_newest

ROWS, PARTITIONS, BATCH = 20_000, 8, 100
SCHEMA = "id int64, part int64, n int64, text string"
MOST_GROWTH = 1.15
# What a stream waits for: the next rows.
_PAUSE_SECONDS = 0.05
_IDLE_SECONDS = 0.02


def row(key: int, n: int) -> dict[str, object]:
    return {"id": key, "part": key % PARTITIONS, "n": n, "text": f"{key * 2_654_435_761 % 2**32:08x}"}


def stream(place: Place, upserts: int) -> dict[str, Any]:
    """Upsert after upsert, each with what `Table.upsert` does after it; what they counted together."""
    here = opened(place, 0)
    chance = random.Random(place.seed)
    totals: Counter[str] = Counter()
    expected = dict.fromkeys(range(ROWS), 0)
    started, waited = time.monotonic(), 0.0
    for number in range(1, upserts + 1):
        # Few of the keys are new, and all lie in two partitions: a stream of events has its days.
        parts = chance.sample(range(PARTITIONS), 2)
        keys = [PARTITIONS * chance.randrange(ROWS // PARTITIONS + number) + chance.choice(parts) for _ in range(BATCH)]
        rows = {key: row(key, number) for key in keys}
        try:
            before = here.store.meter.snapshot().requests
            state, result = upsert_table(here.store, read_newest(here.store), list(rows.values()), order_by="n")
            totals["upsert_requests"] += here.store.meter.snapshot().requests - before
        except NeedlefishError as error:
            totals[f"aborted {type(error).__name__}"] += 1
            continue
        expected |= dict.fromkeys(rows, number)
        totals["upserts"] += 1
        totals["healed"] += result.healed
        tidy(here.store, state)
        time.sleep(_PAUSE_SECONDS)
        waited += _PAUSE_SECONDS
    seconds = time.monotonic() - started - waited
    _check(here.store, expected)
    aborted = sum(count for name, count in totals.items() if name.startswith("aborted"))
    return {**totals, "aborted": aborted, **here.met(), "seconds": round(seconds, 2), "files": read_newest(here.store).totals.files}


def _check(store: RetriedStore, expected: dict[int, int]) -> None:
    state = read_newest(store)
    found = scan_table(store, state, columns=["id", "n"])[0]
    rows = dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))
    assert found.num_rows == len(rows), "a row is there twice"
    assert rows == expected, "a row is lost or wrong"
    assert not verify_table(Snapshot(store=store, state=state)).problems


def compact(place: Place) -> None:
    """As `needlefish tend` does it, one cancellable plan after the other, until it is asked to stop."""
    here = opened(place, 1)
    totals: Counter[str] = Counter()

    class Teller:
        """Counts what came of compactions."""

        def tell(self, event: Event) -> None:
            if event.action == "compaction":
                totals["completed" if event.outcome == "done" else "preempted"] += 1
                totals["files"] += int(str(event.facts.get("files_before", 0)))

        def doing(self, table: str, what: str) -> AbstractContextManager[None]:
            return nullcontext()

    options = TendOptions(every_seconds=_IDLE_SECONDS, clean=False)
    table = TendedTable(here.store, options, here_worker, Teller(), Stop())
    place.say("compacting")
    while not place.is_over:
        table.tend()
        time.sleep(_IDLE_SECONDS)
    Path(place.folder, "compactor.json").write_text(json.dumps({**totals, **here.met()}))


@contextmanager
def compactor(place: Place, *, wanted: bool) -> Iterator[dict[str, Any]]:
    """Runs beside the block; what it counted is there afterwards."""
    found: dict[str, Any] = {}
    if not wanted:
        yield found
        return
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.beside", "--compact", place.encode()])
    try:
        while not place.is_said("compacting") and process.poll() is None:
            time.sleep(_IDLE_SECONDS)
        yield found
        place.say("over")
        assert process.wait(timeout=120) == 0, "the compactor failed"
        found |= json.loads(Path(place.folder, "compactor.json").read_text())
    finally:
        process.kill()
        process.wait()


def measure(upserts: int, seed: int, *, beside: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(uri=f"{folder}/table", folder=folder, seed=seed)
        rows = [row(number, 0) for number in range(ROWS)]
        build_table(opened(place, 0).store, SCHEMA, "id", rows, partition_by="part", indexes=None, properties={"granule_rows": 512})
        with compactor(place, wanted=beside) as compaction:
            found = stream(place, upserts)
        return {**found, "compaction": compaction}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.beside", description=__doc__)
    parser.add_argument("--upserts", type=int, default=150)
    parser.add_argument("--seed", type=int, default=20261116)
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--compact", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.compact:
        compact(Place.decode(given.compact))
        return 0
    before = machine()
    alone, beside = (measure(given.upserts, given.seed, beside=how) for how in (False, True))
    growth = {
        name: round(beside[name] / alone[name], 3) if alone[name] else None
        for name in ("upsert_requests", "requests", "lost_races", "healed", "seconds")
    }
    found = {"upserts": given.upserts, "seed": given.seed, "alone": alone, "beside": beside, "growth": growth}
    console().print_json(data=found)
    if given.keep:
        keep("beside", found, before)
    within = (growth["upsert_requests"] or 0) <= MOST_GROWTH
    return 0 if within and not alone["aborted"] + beside["aborted"] else 1


if __name__ == "__main__":
    sys.exit(main())
