"""Probes per second of one to eight readers at once, as threads of one process and as processes."""

import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing.synchronize import Barrier
from threading import Barrier as ThreadBarrier
from threading import Thread

from benchmarks.point_index.runs import KINDS, allow_kernels, build_run, definition, local_store, questions, reader_for
from benchmarks.point_index.scale import Scale
from needlefish.config import StoreConfig
from needlefish.index.point import Hashes, PointReader
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointKind
from needlefish.store import RetriedStore, open_store

READERS = (1, 2, 4, 8)
_PARTITIONS, _VALUES = 10_000, 1_000
_ASKED = 4_000
_WARM_UP = 50
# Time to load kernels and open files before all begin.
_LEAD_SECONDS = 2.0


def measure(scale: Scale) -> list[dict[str, object]]:
    context = multiprocessing.get_context("spawn")
    most = max(READERS)
    with ProcessPoolExecutor(most, context, _begin, (context.Barrier(most),)) as pool:
        # Starts all of them: each waits at the barrier before its first task.
        list(pool.map(abs, range(most)))
        return [row for kind in KINDS for row in _of_kind(kind, pool, scale.reader_seconds)]


def _of_kind(kind: PointKind, pool: ProcessPoolExecutor, seconds: float) -> Iterator[dict[str, object]]:
    with local_store() as store:
        ref = build_run(store, definition(kind, _PARTITIONS * _VALUES, _VALUES), _PARTITIONS, _VALUES)
        for readers in READERS:
            threads = _in_threads(store, ref, readers, seconds)
            processes = _in_processes(pool, store.uri, ref, readers, seconds)
            yield {"kind": kind, "readers": readers, "threads_per_s": threads, "processes_per_s": processes}


def _in_threads(store: RetriedStore, ref: RunRef, readers: int, seconds: float) -> float:
    """All of them share one reader."""
    reader, barrier = reader_for(ref), ThreadBarrier(readers)
    rates: list[float] = []

    def work(number: int) -> None:
        asked = _asked(number)
        _warmed(store, reader, asked)
        barrier.wait()
        rates.append(_rate(store, reader, asked, seconds))

    threads = [Thread(target=work, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(rates)


def _in_processes(pool: ProcessPoolExecutor, uri: str, ref: RunRef, readers: int, seconds: float) -> float:
    """All processes are up and idle, so that each takes one task; they begin at the same time."""
    begin = time.time() + _LEAD_SECONDS
    return sum(pool.map(partial(_process, uri, ref, seconds, begin), range(readers)))


def _begin(barrier: Barrier) -> None:
    allow_kernels()
    barrier.wait()


def _process(uri: str, ref: RunRef, seconds: float, begin: float, number: int) -> float:
    store, reader, asked = open_store(StoreConfig(uri=uri)), reader_for(ref), _asked(number)
    _warmed(store, reader, asked)
    time.sleep(max(0.0, begin - time.time()))
    return _rate(store, reader, asked, seconds)


def _asked(number: int) -> Hashes:
    return questions(_PARTITIONS, _VALUES, _ASKED, seed=number)


def _warmed(store: RetriedStore, reader: PointReader, asked: Hashes) -> None:
    for hashed in asked[:_WARM_UP]:
        reader.probe(store, hashed[None])


def _rate(store: RetriedStore, reader: PointReader, asked: Hashes, seconds: float) -> float:
    start, done = time.perf_counter(), 0
    while (taken := time.perf_counter() - start) < seconds:
        reader.probe(store, asked[done % _ASKED, None])
        done += 1
    return done / taken
