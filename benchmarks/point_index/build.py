"""Keys per second from hashes to a run on two cores, of merges, and bits per key beside what is predicted."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from benchmarks.point_index.runs import (
    KINDS,
    build_run,
    builder_for,
    definition,
    granule,
    local_store,
    memory_store,
    merge_runs,
    partitions_of,
)
from benchmarks.point_index.scale import Scale
from benchmarks.point_index.timing import best_seconds, cpu_seconds, seconds
from needlefish.filters.cuckoo import build_filter
from needlefish.index.point import Hashes
from needlefish.index.postings import predicted_bits
from needlefish.model.point_index import PointIndexDefinition, PointKind
from needlefish.runtime import SYSTEM
from needlefish.store import Store

# Values and buckets: the published filters, and granules of the size that tables write.
_SHAPES = ((100_000, 38_000), (8_192, 3_113))
_CORES = 2
_MERGED_RUNS = 8
# Granules, keys in each and false reads, for bits per key: 32 bytes of granule table are a part of them.
_LAYOUTS = ((100, 20_000, 0.1), (1_000, 8_192, 1.0), (1_000, 8_192, 0.1), (1_000, 8_192, 0.01), (4_000, 2_000, 0.1))


def measure(scale: Scale) -> dict[str, list[dict[str, object]]]:
    built = [_built(kind, values, buckets, scale.build_keys) for values, buckets in _SHAPES for kind in KINDS]
    return {"build": built, "merge": [_merged(kind, scale.build_keys) for kind in KINDS], "bits": _bits()}


def _built(kind: PointKind, values: int, buckets: int, keys: int) -> dict[str, object]:
    partitions = keys // values
    index = definition(kind, partitions * values, values, buckets=buckets)
    hashes = list(partitions_of(partitions, values))
    shares = [hashes[at::_CORES] for at in range(_CORES)] if kind == "cuckoo" else [hashes]
    total = partitions * values
    found: dict[str, object] = {"kind": kind, "values": values, "buckets": buckets, "keys": total}
    found["keys_per_s"] = total / best_seconds(lambda: _build_all(memory_store(), index, shares))
    found["keys_per_cpu_s"] = total / cpu_seconds(lambda: _build_all(memory_store(), index, shares))
    if kind == "cuckoo":
        found["one_builder_keys_per_s"] = total / best_seconds(lambda: _build(memory_store(), index, hashes), 2)
        found["filters_keys_per_s"] = total / best_seconds(lambda: _fill_all(index, shares))
    with local_store() as store:
        found["durable_keys_per_s"] = total / seconds(lambda: _build_all(store, index, shares))
    return found


def _build_all(store: Store, index: PointIndexDefinition, shares: Sequence[Sequence[Hashes]]) -> None:
    """A builder of postings has threads of its own; of cuckoo filters, each core has a builder, as tasks have."""
    if len(shares) == 1:
        _build(store, index, shares[0])
        return
    with ThreadPoolExecutor(len(shares)) as pool:
        list(pool.map(partial(_build, store, index), shares))


def _build(store: Store, index: PointIndexDefinition, hashes: Sequence[Hashes]) -> None:
    builder = builder_for(index)
    for number, part in enumerate(hashes):
        builder.add(granule(number), part)
    builder.finish(store, SYSTEM)


def _fill_all(index: PointIndexDefinition, shares: Sequence[Sequence[Hashes]]) -> None:
    """Filters alone, without the turn into bucket rows."""
    with ThreadPoolExecutor(len(shares)) as pool:
        list(pool.map(lambda share: [build_filter(hashes, index.buckets, index.bits).keys for hashes in share], shares))


def _merged(kind: PointKind, keys: int) -> dict[str, object]:
    values = 8_192
    partitions = keys // values // _MERGED_RUNS
    store, index = memory_store(), definition(kind, partitions * _MERGED_RUNS * values, values)
    runs = [build_run(store, index, partitions, values, number * partitions) for number in range(_MERGED_RUNS)]
    total = partitions * _MERGED_RUNS * values
    taken = best_seconds(lambda: merge_runs(store, runs), 2)
    size = sum(run.bytes for run in runs)
    return {"kind": kind, "runs": _MERGED_RUNS, "keys": total, "keys_per_s": total / taken, "bytes_per_s": size / taken}


def _bits() -> list[dict[str, object]]:
    """The same keys in postings at several false reads, and in cuckoo filters of 16 bits."""
    found: list[dict[str, object]] = []
    for granules, values, false_reads in _LAYOUTS:
        index = definition("postings", granules * values, values, false_reads=false_reads)
        bits = build_run(memory_store(), index, granules, values).bytes * 8 / (granules * values)
        row = {"kind": "postings", "granules": granules, "values": values, "false_reads": false_reads, "bits_per_key": bits}
        table = 32 * 8 / values
        found.append(row | {"predicted": predicted_bits(granules, false_reads), "granule_table_bits": table})
    for granules, values in {(granules, values): None for granules, values, _ in _LAYOUTS}:
        ref = build_run(memory_store(), definition("cuckoo", granules * values, values), granules, values)
        false = granules * 2 * values / definition("cuckoo", 1, values).buckets / 2**16
        row = {"kind": "cuckoo", "granules": granules, "values": values, "false_reads": false}
        found.append(row | {"bits_per_key": ref.bytes * 8 / (granules * values), "predicted": predicted_bits(granules, false)})
    return found
