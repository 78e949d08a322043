"""Forecasts from a sample, and the indexes there are measured by finds of values that nobody has."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from needlefish.config import StoreConfig
from needlefish.filters.cuckoo import bits_per_key, buckets_for, false_rate, slots_for
from needlefish.filters.cuckoo_hash import BITS
from needlefish.filters.postings import predicted_bits, slots_for_keys
from needlefish.format.granule_table import RECORD_BYTES
from needlefish.index.point_kinds import point_builder, point_reader
from needlefish.model.point_index import Granularity, PointIndexDefinition, PointKind
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import RetriedStore, open_store
from needlefish.table.advise.report import Advice, Forecast, Measured
from needlefish.table.advise.sample import Sample, take_sample
from needlefish.table.point.declare import PointIndex, define_index
from needlefish.table.snapshot import Snapshot

# What postings are asked for.
_FALSE_READS = (1.0, 0.1, 0.01)
# A page of postings and the stretch of directory in front of it.
_POSTINGS_READ = 4096 + 64 * 24
# Values that nobody has, drawn to see what they cost.
_PROBES = 256
_SEED = 11


def advise(
    snapshot: Snapshot, store: RetriedStore, columns: str | Sequence[str], built: Mapping[str, float], runtime: Runtime = SYSTEM
) -> Advice:
    """`store` is the snapshot's own, metered apart; `built` has the seconds of indexes built by this handle."""
    definition = snapshot.state.definition
    # The same checks as for an index that is going to be made.
    checked = define_index(PointIndex(columns), definition.schema, definition.properties)
    fields = [definition.schema.field_by_id(field_id) for field_id in checked.fields]
    sample = take_sample(snapshot, fields)
    return Advice(
        columns=tuple(field.name for field in fields),
        rows=sample.all_rows,
        granules=sample.all_granules,
        sampled_rows=sample.rows,
        keys=sample.keys,
        null_share=sample.null_share,
        granules_per_value=sample.granules_per_value,
        forecasts=tuple(_forecasts(snapshot, store, sample, checked, built, runtime)),
    )


def _forecasts(
    snapshot: Snapshot, store: RetriedStore, sample: Sample, index: PointIndexDefinition, built: Mapping[str, float], runtime: Runtime
) -> Iterator[Forecast]:
    """The usual choices, laid out for the keys there are, and the indexes that the column has, as they are laid out."""
    seconds = {kind: _build_seconds(sample, index, kind, runtime) for kind in get_args(PointKind)}
    for granularity in get_args(Granularity):
        for reads in _FALSE_READS:
            yield _postings(sample, granularity, reads, sample.keys / reads, seconds["postings"])
    for bits in BITS:
        yield _cuckoo(sample, bits, buckets_for(max(1, round(sample.keys / max(1, sample.all_granules)))), seconds["cuckoo"])
    for known in snapshot.state.definition.point_indexes:
        if known.fields == index.fields and snapshot.state.runs_of(known.run_kind):
            measured = _measured(snapshot, store, known, built.get(known.name))
            yield replace(_of_index(sample, known, seconds[known.kind]), measured=measured)


def _of_index(sample: Sample, index: PointIndexDefinition, seconds: float) -> Forecast:
    if index.kind == "cuckoo":
        return _cuckoo(sample, index.bits, index.buckets, seconds)
    slots = slots_for_keys(index.expected_keys, index.false_reads, sample.keys)
    return _postings(sample, index.granularity, index.false_reads, slots, seconds)


def _postings(sample: Sample, granularity: str, reads: float, slots: float, seconds: float) -> Forecast:
    """`reads` is what is declared, for `slots` that may leave room to grow: what is read in vain is less by then."""
    granules = sample.all_granules if granularity == "row_group" else sample.all_files
    false_reads = sample.keys / slots if slots else 0.0
    each = predicted_bits(granules, false_reads) + _table_bits(sample, granules) if false_reads else 0.0
    size = round(each * sample.keys / 8)
    return Forecast(
        kind="postings",
        granularity=granularity,
        width=f"{reads:.2g} reads",
        bits_per_key=each,
        bytes=size,
        read_bytes=min(size, _POSTINGS_READ),
        requests=2,
        false_reads=false_reads,
        build_seconds=seconds,
    )


def _cuckoo(sample: Sample, bits: int, buckets: int, seconds: float) -> Forecast:
    """Filters of all granules side by side: a find reads two rows with the slots of every filter."""
    each = sample.keys / max(1, sample.all_granules)
    slots = slots_for(max(1, round(each)), buckets)
    occupancy = each / (slots * buckets)
    width = bits_per_key(bits, occupancy) + _table_bits(sample, sample.all_granules) if occupancy else 0.0
    return Forecast(
        kind="cuckoo",
        granularity="row_group",
        width=f"{bits} bits",
        bits_per_key=width,
        bytes=round(width * sample.keys / 8),
        read_bytes=2 * round(sample.all_granules * slots * bits / 8),
        requests=2,
        false_reads=sample.all_granules * false_rate(bits, slots, occupancy),
        build_seconds=seconds,
    )


def _table_bits(sample: Sample, granules: int) -> float:
    """What the granule table costs a key."""
    return 8 * RECORD_BYTES * granules / max(1, sample.keys)


def _build_seconds(sample: Sample, index: PointIndexDefinition, kind: PointKind, runtime: Runtime) -> float:
    """From hashes to a run, on this machine: the sample is built for real, in memory, and the time is scaled up."""
    keys = sum(len(granule.hashes) for granule in sample.granules)
    if not keys:
        return 0.0
    of_kind = replace(index, kind=kind, bits=16, buckets=buckets_for(max(1, keys // len(sample.granules))))
    store = open_store(StoreConfig(uri=f"memory://{runtime.new_id()}"))
    # Twice: the first one may pay for a compiler.
    seconds = [_timed(of_kind, sample, store, runtime) for _ in range(2)]
    return min(seconds) * sample.keys / keys


def _timed(index: PointIndexDefinition, sample: Sample, store: RetriedStore, runtime: Runtime) -> float:
    started = runtime.clock.monotonic()
    builder = point_builder(index, 0, sample.keys)
    for granule in sample.granules:
        builder.add(granule.ref, granule.hashes)
    builder.finish(store, runtime)
    return runtime.clock.monotonic() - started


def _measured(snapshot: Snapshot, store: RetriedStore, index: PointIndexDefinition, seconds: float | None) -> Measured:
    runs = snapshot.state.runs_of(index.run_kind)
    keys, size = sum(run.point.keys for run in runs if run.point is not None), sum(run.bytes for run in runs)
    before = store.meter.snapshot()
    hits = 0
    for hashed in np.random.default_rng(_SEED).integers(0, 2**64, _PROBES, np.uint64, endpoint=False):
        # Fresh readers: what a find costs that has nothing in memory.
        hits += sum(len(point_reader(run).probe(store, np.array([hashed], np.uint64))) for run in runs)
    used = store.meter.snapshot() - before
    return Measured(
        index=index.name,
        bits_per_key=8 * size / max(1, keys),
        bytes=size,
        read_bytes=used.bytes_read / _PROBES,
        requests=used.requests / _PROBES,
        false_reads=hits / _PROBES,
        build_seconds=seconds,
    )
