"""Merging cuckoo runs: their bucket rows side by side, in stripes of buckets."""

from collections.abc import Sequence

import numpy as np

from needlefish.errors import InvalidError
from needlefish.format.cuckoo_rows import row_bytes_for
from needlefish.index.cuckoo.file import stripe_rows
from needlefish.index.cuckoo.filters import Filters
from needlefish.index.cuckoo.inputs import MergeInput, logical_runs
from needlefish.index.cuckoo.output import CuckooOutput
from needlefish.index.point import Alive
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointRun
from needlefish.runtime import Runtime
from needlefish.store import Store


def merge_cuckoo(store: Store, runs: Sequence[RunRef], alive: Alive, runtime: Runtime, part: tuple[int, int] | None = None) -> RunRef:
    """A PointMerge. `part` are the buckets of the result that are wanted; parts of one input stand next to each other.

    All parts of a result must be made with the same `alive`, since it decides which filters they have.
    """
    point = _layout(runs)
    first, end = part or (0, point.buckets)
    if not 0 <= first < end <= point.buckets:
        raise InvalidError(f"part={part}: the run has the buckets 0 to {point.buckets}; choose some of these")
    inputs = [MergeInput(store, parts) for parts in logical_runs(runs, first, end)]
    _drop_dead(inputs, alive)
    slots = np.concatenate([each.kept_slots() for each in inputs])
    filters = Filters(slots, np.concatenate([each.kept_states() for each in inputs]))
    output = CuckooOutput(runs[0].kind, point.bits, point.buckets, (first, end), filters)
    stripe = stripe_rows(row_bytes_for(filters.total_slots, point.bits))
    for start in range(first, end, stripe):
        stop = min(start + stripe, end)
        output.add(np.concatenate([each.cells(store, start, stop) for each in inputs], axis=1))
    return output.put(store, runtime, b"".join(each.kept_table() for each in inputs), _newest(runs))


def _layout(runs: Sequence[RunRef]) -> PointRun:
    """What all runs of an index have in common by its definition."""
    if not runs:
        raise InvalidError("runs=[]: give at least one run to merge")
    layouts = {(run.kind, run.point.kind, run.point.buckets, run.point.bits) for run in runs if run.point is not None}
    if len(layouts) != 1 or any(run.point is None for run in runs):
        raise InvalidError(f"runs={[run.id for run in runs]}: only runs of one index with the same buckets and bits can be merged")
    point = runs[0].point
    assert point is not None
    return point


def _drop_dead(inputs: Sequence[MergeInput], alive: Alive) -> None:
    """Every chunkset is asked about once."""
    tables = [each.chunksets() for each in inputs]
    keys = sorted({key for names, _ in tables for key in names})
    living = dict(zip(keys, alive(keys), strict=True))
    for each, (names, counts) in zip(inputs, tables, strict=True):
        each.drop(np.repeat(np.array([not living[key] for key in names], np.bool_), counts))


def _newest(runs: Sequence[RunRef]) -> int | None:
    return max((run.version for run in runs if run.version is not None), default=None)
