"""One run of the several that tasks put: a lookup then asks one, however many tasks there were.

Parts are slot ranges (or bucket ranges) of the result. Each reads its own stretch of every input, so that tasks anywhere
can make them side by side and none needs more memory than its part.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.format.run import path_of
from needlefish.index.point_kinds import merged_end, point_merge, whole_runs
from needlefish.model.log import RunRef
from needlefish.model.point_index import INDEX_KIND
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store, open_store

PART_SCHEMA = pa.schema([("part", pa.binary())])
RUN_SCHEMA = pa.schema([("run", pa.binary())])
RUN_TEXT = "run binary"

# A part of so many keys is some 70 MB, and made in a second or two.
_PART_KEYS = 32_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePart:
    """Pages or buckets of the run that `runs` become; all of them if there is no range."""

    runs: tuple[RunRef, ...]
    range: tuple[int, int] | None = None


def parts_of(runs: Sequence[RunRef]) -> list[MergePart]:
    """The parts that runs of one index are merged in."""
    keys = sum(run.point.keys for run in runs if run.point is not None)
    end = merged_end(runs)
    count = min(end, -(-keys // _PART_KEYS))
    if count <= 1:
        return [MergePart(runs=tuple(runs))]
    cuts = [end * number // count for number in range(count + 1)]
    return [MergePart(runs=tuple(runs), range=(first, last)) for first, last in pairwise(cuts)]


def merge_part(store: Store, part: MergePart, runtime: Runtime) -> RunRef:
    """Of runs that tasks have just put, all chunksets are alive."""
    return point_merge(part.runs[0])(store, part.runs, lambda keys: [True] * len(keys), runtime, part.range)


def scattered(runs: Iterable[RunRef]) -> dict[str, list[RunRef]]:
    """Index runs by kind, where there is more than one; the parts of a run are one."""
    found: dict[str, list[RunRef]] = {}
    for run in runs:
        if run.kind.startswith(INDEX_KIND):
            found.setdefault(run.kind, []).append(run)
    return {kind: of_kind for kind, of_kind in found.items() if len(whole_runs(of_kind)) > 1}


def consolidated(store: Store, runs: Sequence[RunRef], runtime: Runtime = SYSTEM) -> tuple[RunRef, ...]:
    """`runs` with one of each index, made here part by part."""
    if not scattered(runs):
        return tuple(runs)
    merged = [merge_part(store, part, runtime) for some in scattered(runs).values() for part in parts_of(some)]
    return replaced(store, runs, merged)


def replaced(store: Store, runs: Sequence[RunRef], merged: Sequence[RunRef]) -> tuple[RunRef, ...]:
    """The runs that are left, and the merged ones; inputs are removed, since no version ever named them."""
    gone = {run.id for some in scattered(runs).values() for run in some}
    store.delete(path_of(run) for run in runs if run.id in gone)
    return (*(run for run in runs if run.id not in gone), *merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePartTask:
    """A callable over batches of parts that any process can run."""

    store: StoreConfig

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.store)
        for data in (data for rows in batches for data in rows["part"].to_pylist()):
            run = merge_part(store, msgspec.msgpack.decode(data, type=MergePart), SYSTEM)
            yield pa.RecordBatch.from_pylist([{"run": msgspec.msgpack.encode(run)}], schema=RUN_SCHEMA)


def part_rows(parts: Iterable[MergePart]) -> pa.Table:
    """Parts as rows that a frame can carry to tasks."""
    return pa.Table.from_pylist([{"part": msgspec.msgpack.encode(part)} for part in parts], schema=PART_SCHEMA)


def runs_of(rows: pa.Table) -> list[RunRef]:
    return [msgspec.msgpack.decode(data, type=RunRef) for data in rows["run"].to_pylist()]
