"""Probes per second of one to eight readers at once, as threads of one process and as processes."""

import multiprocessing
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from threading import Barrier as ThreadBarrier
from threading import Thread

from benchmarks.point_index.runs import KINDS, allow_kernels, build_run, definition, local_store, questions, reader_for
from benchmarks.point_index.scale import Scale
from needlefish.config import StoreConfig
from needlefish.index.point import Hashes, PointReader
from needlefish.model.log import RunRef
from needlefish.store import RetriedStore, open_store

READERS = (1, 2, 4, 8)
_PARTITIONS, _VALUES = 10_000, 1_000
_ASKED = 4_000
_WARM_UP = 50


def measure(scale: Scale) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for kind in KINDS:
        with local_store() as store:
            ref = build_run(store, definition(kind, _PARTITIONS * _VALUES, _VALUES), _PARTITIONS, _VALUES)
            for readers in READERS:
                threads = _in_threads(store, ref, readers, scale.reader_seconds)
                processes = _in_processes(store.uri, ref, readers, scale.reader_seconds)
                found.append({"kind": kind, "readers": readers, "threads_per_s": threads, "processes_per_s": processes})
    return found


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


def _in_processes(uri: str, ref: RunRef, readers: int, seconds: float) -> float:
    context = multiprocessing.get_context("spawn")
    barrier, rates = context.Barrier(readers), context.Queue()
    processes = [context.Process(target=_process, args=(uri, ref, number, seconds, barrier, rates)) for number in range(readers)]
    for process in processes:
        process.start()
    found = [rates.get() for _ in processes]
    for process in processes:
        process.join()
    return sum(found)


def _process(uri: str, ref: RunRef, number: int, seconds: float, barrier: Barrier, rates: "Queue[float]") -> None:
    allow_kernels()
    store, reader, asked = open_store(StoreConfig(uri=uri)), reader_for(ref), _asked(number)
    _warmed(store, reader, asked)
    barrier.wait()
    rates.put(_rate(store, reader, asked, seconds))


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
