"""One run of the several that tasks put: a lookup then asks one, however many tasks there were.

Parts are slot ranges (or bucket ranges) of the result. Each reads its own stretch of every input, so that tasks anywhere
can make them side by side and none needs more memory than its part.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec
import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.format.run import path_of
from needlefish.index.point_kinds import merged_end, point_merge, whole_runs
from needlefish.index.postings import slots_for
from needlefish.model.definition import TableDefinition
from needlefish.model.log import RunRef, TableState
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import Store, open_store
from needlefish.table.point.runs import indexed_keys

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
    most_slots: int | None = None


def parts_of(runs: Sequence[RunRef], most_slots: int | None = None) -> list[MergePart]:
    """The parts that runs of one index are merged in."""
    end = merged_end(runs, most_slots)
    count = min(end, -(-_keys(runs) // _PART_KEYS))
    if count <= 1:
        return [MergePart(runs=tuple(runs), most_slots=most_slots)]
    cuts = [end * number // count for number in range(count + 1)]
    return [MergePart(runs=tuple(runs), range=(first, last), most_slots=most_slots) for first, last in pairwise(cuts)]


def merge_part(store: Store, part: MergePart, runtime: Runtime) -> RunRef:
    """Of runs that tasks have just put, all chunksets are alive."""
    return point_merge(part.runs[0])(store, part.runs, lambda keys: [True] * len(keys), runtime, part.range, part.most_slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """What becomes of the index runs that tasks have put: `parts` are made of some, the others stay."""

    runs: tuple[RunRef, ...]
    parts: tuple[MergePart, ...]

    def finished(self, store: Store, merged: Sequence[RunRef]) -> tuple[RunRef, ...]:
        """The runs that are left, and the merged ones; inputs are removed, since no version ever named them."""
        gone = {run.id for part in self.parts for run in part.runs}
        if gone:
            store.delete(path_of(run) for run in self.runs if run.id in gone)
        return (*(run for run in self.runs if run.id not in gone), *merged)


def plan_consolidation(definition: TableDefinition, keys_before: Mapping[str, int], runs: Sequence[RunRef]) -> Consolidation:
    """One run of each index, with as many slots as all keys together want: a task knows its own alone."""
    parts: list[MergePart] = []
    for index in definition.point_indexes:
        of_index = [run for run in runs if run.kind == index.run_kind]
        most = _most_slots(index, keys_before.get(index.name, 0) + _keys(of_index))
        if len(whole_runs(of_index)) > 1 or any(run.point is not None and run.point.slots > most for run in of_index):
            parts += parts_of(of_index, most)
    return Consolidation(runs=tuple(runs), parts=tuple(parts))


def _most_slots(index: PointIndexDefinition, keys: int) -> int:
    return slots_for(index, keys) if index.kind == "postings" else 0


def _keys(runs: Sequence[RunRef]) -> int:
    return sum(run.point.keys for run in runs if run.point is not None)


def consolidated(store: Store, base: TableState, runs: Sequence[RunRef], runtime: Runtime = SYSTEM) -> tuple[RunRef, ...]:
    """`runs` with one of each index, made here part by part; parts that are made already stay as they are."""
    return consolidate_here(store, plan_consolidation(base.definition, indexed_keys(base), runs), runtime)


def consolidate_here(store: Store, plan: Consolidation, runtime: Runtime = SYSTEM) -> tuple[RunRef, ...]:
    """In this process, one part after the other."""
    return plan.finished(store, [merge_part(store, part, runtime) for part in plan.parts])


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePartTask:
    """A callable over batches of parts that any process can run."""

    store: StoreConfig
    # The attempt that all ids begin with.
    owner: str = ""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.store)
        for data in (data for rows in batches for data in rows["part"].to_pylist()):
            run = merge_part(store, msgspec.msgpack.decode(data, type=MergePart), SYSTEM.owned(self.owner))
            yield pa.RecordBatch.from_pylist([{"run": msgspec.msgpack.encode(run)}], schema=RUN_SCHEMA)


def part_rows(parts: Iterable[MergePart]) -> pa.Table:
    """Parts as rows that a frame can carry to tasks."""
    return pa.Table.from_pylist([{"part": msgspec.msgpack.encode(part)} for part in parts], schema=PART_SCHEMA)


def runs_of(rows: pa.Table) -> list[RunRef]:
    return [msgspec.msgpack.decode(data, type=RunRef) for data in rows["run"].to_pylist()]
