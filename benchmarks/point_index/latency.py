"""One probe against the number of partitions, and beside it the time that memory takes for the same bytes."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.point_index.runs import definition, large_run, local_store, questions
from benchmarks.point_index.scale import Layout, Scale
from benchmarks.point_index.timing import Times, median_us, probe_times
from needlefish.filters.cuckoo import buckets_for
from needlefish.filters.cuckoo_hash import place_of
from needlefish.format.run import path_of
from needlefish.index.point import Hashes
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointKind
from needlefish.store import RetriedStore

_COLD_PROBES = 200
_COPIES = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """One run; `copy_us` and `sum_us` are what NumPy takes for two rows of the same file in memory, of cuckoo alone."""

    kind: PointKind
    partitions: int
    values: int
    buckets: int
    file_bytes: int
    warm: Times
    fresh: Times
    copy_us: float = 0.0
    sum_us: float = 0.0


def measure(scale: Scale) -> list[dict[str, object]]:
    return [asdict(_measured(kind, *layout, scale.probes)) for kind, layout in _layouts(scale)]


def _layouts(scale: Scale) -> Iterator[tuple[PointKind, Layout]]:
    for kind, counts in (("cuckoo", scale.cuckoo_partitions), ("postings", scale.postings_partitions)):
        for partitions in counts:
            values = scale.latency_keys // partitions
            yield kind, (partitions, values, buckets_for(values))
    for layout in scale.published_layouts:
        yield from ((kind, layout) for kind in ("cuckoo", "postings"))


def _measured(kind: PointKind, partitions: int, values: int, buckets: int, probes: int) -> Latency:
    with local_store() as store:
        ref = large_run(store, definition(kind, partitions * values, values, buckets=buckets), partitions, values)
        asked = questions(partitions, values, probes)
        copy_us, sum_us = _memory_us(store, ref, asked[:_COPIES]) if kind == "cuckoo" else (0.0, 0.0)
        return Latency(
            kind=kind,
            partitions=partitions,
            values=values,
            buckets=buckets,
            file_bytes=ref.bytes,
            warm=probe_times(store, ref, asked),
            fresh=probe_times(store, ref, asked[:_COLD_PROBES], fresh=True),
            copy_us=copy_us,
            sum_us=sum_us,
        )


def _memory_us(store: RetriedStore, ref: RunRef, asked: Hashes) -> tuple[float, float]:
    """Medians over the rows that the probes read, from the whole file in memory, so that caches help no more than there."""
    point = ref.point
    assert point is not None
    path = store.local_path(path_of(ref))
    assert path is not None
    rows = np.fromfile(path, np.uint8, point.buckets * point.row_bytes).reshape(point.buckets, point.row_bytes)
    target = np.empty((2, point.row_bytes), np.uint8)
    wanted = [place_of(int(hashed), point.buckets, point.bits)[:2] for hashed in asked]
    copies: list[Callable[[], object]] = [lambda pair=pair: _copy_both(rows, pair, target) for pair in wanted]
    sums: list[Callable[[], object]] = [lambda pair=pair: _sum_both(rows, pair) for pair in wanted]
    return median_us(copies), median_us(sums)


def _copy_both(rows: NDArray[np.uint8], pair: tuple[int, int], target: NDArray[np.uint8]) -> None:
    np.copyto(target[0], rows[pair[0]])
    np.copyto(target[1], rows[pair[1]])


def _sum_both(rows: NDArray[np.uint8], pair: tuple[int, int]) -> int:
    """Words, since NumPy adds bytes one by one."""
    words = rows.shape[1] // 8 * 8
    return sum(int(rows[row][:words].view(np.uint64).sum()) for row in pair)
