"""The number of buckets against latency, occupancy and bits per key; postings over the same values as the reference."""

import numpy as np

from benchmarks.point_index.runs import build_run, definition, local_store, questions
from benchmarks.point_index.scale import Scale
from benchmarks.point_index.timing import probe_times
from needlefish.index.cuckoo.file import CuckooFile
from needlefish.model.log import RunRef
from needlefish.store import RetriedStore

# Buckets for each value; 0.38 is the published choice.
_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.34, 0.38, 0.42, 0.5, 0.58, 0.7, 1.0, 1.5, 2.5)
_PROBES = 500


def measure(scale: Scale) -> dict[str, object]:
    cuckoo = [_cuckoo(scale, round(share * scale.bucket_values)) for share in _SHARES]
    return {"partitions": scale.bucket_partitions, "values": scale.bucket_values, "cuckoo": cuckoo, "postings": _postings(scale)}


def _cuckoo(scale: Scale, buckets: int) -> dict[str, float]:
    partitions, values = scale.bucket_partitions, scale.bucket_values
    with local_store() as store:
        ref = build_run(store, definition("cuckoo", partitions * values, values, buckets=buckets), partitions, values)
        return {"buckets": buckets, **_slots(store, ref), **_common(store, ref, partitions, values)}


def _postings(scale: Scale) -> dict[str, float]:
    partitions, values = scale.bucket_partitions, scale.bucket_values
    with local_store() as store:
        ref = build_run(store, definition("postings", partitions * values, values), partitions, values)
        return _common(store, ref, partitions, values)


def _common(store: RetriedStore, ref: RunRef, partitions: int, values: int) -> dict[str, float]:
    times = probe_times(store, ref, questions(partitions, values, _PROBES))
    return {"p50_us": times.p50_us, "p90_us": times.p90_us, "bytes": times.bytes, "bits_per_key": ref.bytes * 8 / (partitions * values)}


def _slots(store: RetriedStore, ref: RunRef) -> dict[str, float]:
    slots = CuckooFile(ref).filters(store).slots
    assert ref.point is not None
    return {
        "occupancy": ref.point.keys / (int(slots.sum(dtype=np.int64)) * ref.point.buckets),
        "slots": float(slots.mean()),
        # Of filters that needed one slot more than most.
        "grown": float((slots > np.median(slots)).mean()),
    }
