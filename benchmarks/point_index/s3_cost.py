"""Requests and bytes of a cold probe on S3, counted here and by the server: one run, and a reader that knows nothing yet."""

import numpy as np

from benchmarks.point_index.runs import KINDS, build_run, definition, questions, reader_for
from benchmarks.point_index.scale import Scale
from needlefish.index.point import Hashes
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointKind
from needlefish.store import RetriedStore, open_store
from needlefish.testing.s3 import S3Server, s3_server

_LAYOUTS = ((1_000, 1_000), (10_000, 100), (100_000, 20))
_PROBES = 60


def measure(scale: Scale) -> list[dict[str, object]]:
    """The same at every scale: these are counts."""
    with s3_server() as server:
        return [_measured(server, kind, *layout) for kind in KINDS for layout in _LAYOUTS]


def _measured(server: S3Server, kind: PointKind, partitions: int, values: int) -> dict[str, object]:
    store = open_store(server.config(f"{kind}-{partitions}"))
    ref = build_run(store, definition(kind, partitions * values, values), partitions, values)
    before = server.requests()
    costs = np.array([_cost(store, ref, hashed[None]) for hashed in questions(partitions, values, _PROBES)])
    (most_requests, most_bytes), (mean_requests, mean_bytes) = costs.max(axis=0).tolist(), costs.mean(axis=0).tolist()
    return {
        "kind": kind,
        "partitions": partitions,
        "keys": partitions * values,
        "file_bytes": ref.bytes,
        "requests": mean_requests,
        "most_requests": most_requests,
        "bytes": mean_bytes,
        "most_bytes": most_bytes,
        "requests_the_server_saw": (server.requests() - before) / _PROBES,
    }


def _cost(store: RetriedStore, ref: RunRef, hashes: Hashes) -> tuple[int, int]:
    before = store.meter.snapshot()
    reader_for(ref).probe(store, hashes)
    used = store.meter.snapshot() - before
    return used.requests, used.bytes_read
