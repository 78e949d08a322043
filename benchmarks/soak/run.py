"""Runs all processes of a soak, looks at the table meanwhile, and checks everything at the end."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.soak.check import Op, ops_by_key, problems
from benchmarks.soak.notes import read_notes
from benchmarks.soak.place import Place, opened
from benchmarks.soak.rows import KEYS, SCHEMA, WRITERS, properties
from benchmarks.soak.sample import sample
from needlefish.services.clean import CleanOptions, clean
from needlefish.store import RetriedStore
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.services import orphans
from needlefish.testing.tables import build_table, scan_table
from needlefish.timeline import read_newest

TENDERS, FINDERS = 2, 2
COUNTS = {"writer": WRITERS, "tender": TENDERS, "finder": FINDERS}
# Of a result; all are counted.
_MOST_EXAMPLES = 20


def soak(place: Place, seconds: float, every: float) -> dict[str, Any]:
    """The whole of it. `wrong` is empty if nothing was."""
    store = opened(place, 0, faulty=False).store
    build_table(
        store, SCHEMA, "id", (), partition_by="part", indexes=None, properties=properties(place.heartbeat_seconds, place.grace_seconds)
    )
    with ExitStack() as kept:
        processes = {role: kept.enter_context(_processes(place, role, count)) for role, count in COUNTS.items()}
        everybody = [process for some in processes.values() for process in some]
        _wait_for(place, everybody)
        samples = _watched(store, everybody, seconds, every)
        place.say("over")
        dead = _ended("writer", processes["writer"]) + _ended("finder", processes["finder"])
        # The last changes get their care too.
        time.sleep(2 * every)
        place.say("tended")
        dead += _ended("tender", processes["tender"])
    return _summary(place, store, samples, dead)


def _wait_for(place: Place, everybody: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Until all are ready, or one is dead already."""
    names = [f"{role}-{number}" for role, count in COUNTS.items() for number in range(count)]
    while not all(map(place.is_said, names)) and all(process.poll() is None for process in everybody):
        time.sleep(0.1)
    place.say("begin")


@contextmanager
def _processes(place: Place, role: str, count: int) -> Iterator[list["subprocess.Popen[bytes]"]]:
    command = [sys.executable, "-m", "benchmarks.soak", "--role", role, "--place", place.encode(), "--number"]
    started = [subprocess.Popen([*command, str(number)]) for number in range(count)]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def _watched(store: RetriedStore, processes: Sequence["subprocess.Popen[bytes]"], seconds: float, every: float) -> list[dict[str, Any]]:
    started = time.monotonic()
    samples = []
    while time.monotonic() - started < seconds and all(process.poll() is None for process in processes):
        samples.append(sample(store, started))
        time.sleep(every)
    return samples


def _ended(role: str, processes: Sequence["subprocess.Popen[bytes]"]) -> list[str]:
    """Whoever did not come to a good end."""
    codes = [process.wait(timeout=120) for process in processes]
    return [f"{role} {number} ended with {code}" for number, code in enumerate(codes) if code]


def _summary(place: Place, store: RetriedStore, samples: Sequence[dict[str, Any]], dead: Sequence[str]) -> dict[str, Any]:
    ops = ops_by_key(read_notes(place.notes(f"writer-{number}")) for number in range(WRITERS))
    looks = [note for number in range(FINDERS) for note in read_notes(place.notes(f"finder-{number}"))]
    wrong = [*dead, *(f"a finder failed: {note['failure']}: {note['why']}" for note in looks if "failure" in note)]
    wrong += [problem for look in looks if "asked" in look for problem in problems(ops, look)]
    # No heartbeat is left to expire, but plans are put before the log speaks of them: a clean leaves young ones alone.
    time.sleep(place.grace_seconds)
    end = _end(store, ops)
    return {
        "writers": _totals(place, "writer", WRITERS),
        "services": _totals(place, "tender", TENDERS),
        "finders": _totals(place, "finder", FINDERS),
        "aborted": [note for number in range(WRITERS) for note in read_notes(place.notes(f"writer-{number}")) if "failed" in note],
        "end": end,
        "wrong": len(wrong) + len(end["wrong"]),
        "examples": [*wrong, *end["wrong"]][:_MOST_EXAMPLES],
        "samples": list(samples),
    }


def _totals(place: Place, role: str, count: int) -> dict[str, Any]:
    """Of all processes of a role."""
    sums: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for number in range(count):
        for note in read_notes(place.notes(f"{role}-{number}")):
            if "totals" in note:
                sums.update(note["totals"])
                sums.update({"requests": note["requests"], "lost_races": note["lost_races"]})
                faults.update(note["faults"])
    return {**sums, "faults": dict(faults)}


def _end(store: RetriedStore, ops: dict[int, list[Op]]) -> dict[str, Any]:
    """Everybody is gone: what they left must be tidy after one clean, and show what was acknowledged last."""
    now = time.monotonic()
    state, result = clean(store, read_newest(store), CleanOptions(retained_versions=1, retained_seconds=0, grace_seconds=0))
    rows = scan_table(store, state)[0].to_pylist()
    look = {"begin": now, "known": now, "version": state.version, "asked": list(range(KEYS)), "wrong": []}
    wrong = list(problems(ops, {**look, "seen": [(row["id"], row["seq"]) for row in rows]}))
    wrong += [f"verify: {problem}" for problem in verify_table(Snapshot(store=store, state=state)).problems]
    left = sorted(orphans(store, state))
    wrong += [f"orphan: {path}" for path in left]
    wrong += [f"still there: {found}" for found in state.instants if found.claim is not None]
    return {
        "version": state.version,
        "rows": len(rows),
        "orphans": len(left),
        "cleaned_objects": result.objects,
        "rolled_back": len(result.rolled_back),
        "wrong": wrong,
        **{name: sample(store, now)[name] for name in ("live_runs", "live_files", "objects")},
    }
