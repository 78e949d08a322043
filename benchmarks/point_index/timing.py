"""Times of single probes, one by one, and what they asked of the store."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.point_index.runs import reader_for
from needlefish.index.point import Hashes, PointReader
from needlefish.model.log import RunRef
from needlefish.store import RetriedStore

_WARM_UP = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Microseconds of many probes, and requests and bytes of an average one."""

    p50_us: float
    p90_us: float
    requests: float
    bytes: float


def probe_times(store: RetriedStore, ref: RunRef, hashes: Hashes, *, fresh: bool = False) -> Times:
    """Of one warm reader, or of a fresh one for each probe; the file is in the page cache either way."""
    reader = reader_for(ref)
    for hashed in hashes[:_WARM_UP]:
        reader.probe(store, hashed[None])
    before = store.meter.snapshot()
    taken = [_probe_us(store, reader_for(ref) if fresh else reader, hashed[None]) for hashed in hashes]
    used = store.meter.snapshot() - before
    p50, p90 = np.percentile(taken, [50, 90]).tolist()
    return Times(p50_us=p50, p90_us=p90, requests=used.requests / len(hashes), bytes=used.bytes_read / len(hashes))


def _probe_us(store: RetriedStore, reader: PointReader, hashes: Hashes) -> float:
    start = time.perf_counter_ns()
    reader.probe(store, hashes)
    return (time.perf_counter_ns() - start) / 1000


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def best_seconds(work: Callable[[], object], runs: int = 3) -> float:
    """The machine's noise only ever adds."""
    return min(seconds(work) for _ in range(runs))


def cpu_seconds(work: Callable[[], object]) -> float:
    """Of all threads: on a busy machine it says more than the clock."""
    start = time.process_time()
    work()
    return time.process_time() - start


def median_us(works: list[Callable[[], object]]) -> float:
    return float(np.median([seconds(work) for work in works])) * 1e6
