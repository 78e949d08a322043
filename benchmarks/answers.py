"""One question to one peer: what is asked, what came back, and what it cost. Runs in the process that holds the peer."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.folders import kept_bytes, snapshot, written_bytes
from benchmarks.peers.base import Peer, Traffic, Unsupported
from benchmarks.processes import Peaks, forget_peaks, watched
from benchmarks.workloads import Workload

Verb = Literal["load", "open", "find", "find_by", "scan", "upsert", "delete", "maintain"]
WRITES: tuple[Verb, ...] = ("load", "upsert", "delete", "maintain")
Status = Literal["ok", "unsupported", "failed"]

# No further ask of a turn begins after so long.
_BURST_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """`argument` is keys or values, columns of a scan, or the path of a batch. Cold: opening a fresh handle counts too."""

    verb: Verb
    argument: object = None
    cold: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`rows` in the workload's types and the order of its key; a scan gives `totals` instead."""

    status: Status = "ok"
    reason: str = ""
    seconds: float = 0.0
    rows: pa.Table | None = None
    count: int | None = None
    totals: dict[str, int] | None = None
    peak_bytes: int = 0
    # Largest first, for each kind of process; only while writing.
    peaks: dict[str, list[int]] | None = None
    written_bytes: int | None = None
    kept_bytes: int | None = None
    requests: int | None = None
    read_bytes: int | None = None


def answer(peer: Peer, ask: Ask) -> Answer:
    """Never raises for what a peer does: its refusal or its error is the answer."""
    try:
        return _asked(peer, ask)
    except Exception as error:  # noqa: BLE001 - peers raise whatever they like, and the report shows it
        return _refusal(error)


def answer_all(peer: Peer, asks: Sequence[Ask]) -> list[Answer]:
    """Reads right after one another, as from a handle in use; what is to be done about them is done when all have come.

    Ends with the first that fails, or when its time is up: whoever takes seconds gains nothing from being in use.
    Memory is that of all together.
    """
    came: list[tuple[object, Answer]] = []
    refused: list[Answer] = []
    end = time.perf_counter() + _BURST_SECONDS
    with _peaks(long=False) as peaks:
        for ask in asks:
            if came and time.perf_counter() > end:
                break
            traffic(peer)
            try:
                started = time.perf_counter()
                found = _VERBS[ask.verb](peer, ask.argument)
                seconds = time.perf_counter() - started
            except Exception as error:  # noqa: BLE001 - as above
                refused = [_refusal(error)]
                break
            came.append((found, _counted(seconds, traffic(peer))))
    return [*(_told(found, replace(cost, peak_bytes=peaks.total_bytes), peer) for found, cost in came), *refused]


def _refusal(error: Exception) -> Answer:
    if isinstance(error, Unsupported):
        return Answer(status="unsupported", reason=str(error))
    return Answer(status="failed", reason=f"{type(error).__name__}: {error}"[:500])


def _counted(seconds: float, counted: Traffic | None) -> Answer:
    if counted is None:
        return Answer(seconds=seconds)
    return Answer(seconds=seconds, requests=counted.requests, read_bytes=counted.read_bytes)


def _told(came: object, found: Answer, peer: Peer) -> Answer:
    if isinstance(came, pa.Table):
        return replace(found, rows=canonical_rows(came, peer.workload), count=came.num_rows)
    return replace(found, totals=came, count=came["rows"]) if isinstance(came, dict) else found


def _asked(peer: Peer, ask: Ask) -> Answer:
    if ask.verb in WRITES and ask.verb != "load":
        peer.ready_to_write()
    writes = ask.verb in WRITES and peer.place.local
    before = snapshot(peer.folder) if writes else {}
    traffic(peer)
    with _peaks(long=ask.verb in WRITES) as peaks:
        started = time.perf_counter()
        if ask.cold:
            peer.reopen()
        came = _VERBS[ask.verb](peer, ask.argument)
        seconds = time.perf_counter() - started
    found = replace(_counted(seconds, traffic(peer)), peak_bytes=peaks.total_bytes)
    if ask.verb in WRITES:
        found = replace(found, peaks=peaks.by_name())
    if writes:
        found = replace(found, written_bytes=written_bytes(before, snapshot(peer.folder)), kept_bytes=kept_bytes(peer.folder))
    return _told(came, found, peer)


@contextmanager
def _peaks(*, long: bool) -> Iterator[Peaks]:
    """Short questions are not watched by a thread, which would take some of the time that is measured."""
    forget_peaks()
    if long:
        with watched() as peaks:
            yield peaks
        return
    peaks = Peaks()
    yield peaks
    peaks.look()


def traffic(peer: Peer) -> Traffic | None:
    """Requests and bytes since the last time this was asked."""
    return peer.traffic() if peer.opened else None


def canonical_rows(rows: pa.Table, workload: Workload) -> pa.Table:
    """The same rows look the same, whoever found them."""
    typed = rows.select(workload.schema.names).cast(workload.schema)
    return typed.sort_by([(name, "ascending") for name in workload.key]).combine_chunks()


def totals(batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Reads to the end and keeps nothing: the number of rows and the sum of every column."""
    sums: dict[str, int] = {"rows": 0}
    for batch in batches:
        sums["rows"] += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            sums[name] = sums.get(name, 0) + (pc.sum(column).as_py() or 0)
    return sums


_VERBS: dict[Verb, Callable[[Peer, object], object]] = {
    "load": lambda peer, _: peer.load(),
    "open": lambda peer, _: peer.reopen(),
    "find": lambda peer, keys: peer.find(keys),  # type: ignore[arg-type]
    "find_by": lambda peer, values: peer.find_by(values),  # type: ignore[arg-type]
    "scan": lambda peer, columns: totals(peer.scan(columns)),  # type: ignore[arg-type]
    "upsert": lambda peer, path: peer.upsert(Path(str(path))),
    "delete": lambda peer, path: peer.delete(Path(str(path))),
    "maintain": lambda peer, _: peer.maintain(),
}
