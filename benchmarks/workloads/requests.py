"""Web requests: a random id of 32 characters is the key, so that every file's ids span the whole range."""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Draw, Workload, drawn_texts, moments, random_ids

# 2026-11-01, and thirty days.
_FIRST_US = 1_793_491_200_000_000
_SPAN_US = 30 * 86_400_000_000
_HOSTS = tuple(f"host-{number:02}.example.com" for number in range(50))
_PATHS = tuple(f"/item/{number}" for number in range(5_000))
_STATUS = np.array([200] * 90 + [301] * 4 + [404] * 4 + [500, 503], dtype=np.int32)
_ROWS_PER_USER = 200


class Requests(Workload):
    """A user has about 200 requests, scattered over as many files."""

    __slots__ = ()
    name: ClassVar[str] = "requests"
    key: ClassVar[tuple[str, ...]] = ("request_id",)
    column: ClassVar[str] = "user_id"
    scanned: ClassVar[tuple[str, ...]] = ("user_id", "status")
    schema: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("request_id", pa.string(), nullable=False),
            ("ts", pa.timestamp("us", tz="UTC")),
            ("user_id", pa.int64()),
            ("host", pa.string()),
            ("path", pa.string()),
            ("status", pa.int32()),
            ("latency_ms", pa.float64()),
        ]
    )

    @property
    def users(self) -> int:
        return max(1, self.sizes.total // _ROWS_PER_USER)

    def keys(self, number: int) -> pa.Table:
        return pa.table({"request_id": random_ids(self.sizes.rows, self.chance(Draw.KEYS, number))})

    def values(self, keys: pa.Table, chance: np.random.Generator) -> dict[str, pa.Array]:
        rows = len(keys)
        return {
            "ts": moments(_FIRST_US, chance.integers(0, _SPAN_US, rows)),
            "user_id": pa.array(chance.integers(0, self.users, rows)),
            "host": drawn_texts(_HOSTS, rows, chance),
            "path": drawn_texts(_PATHS, rows, chance),
            "status": pa.array(chance.choice(_STATUS, rows)),
            "latency_ms": pa.array(np.round(chance.gamma(2.0, 20.0, rows), 3)),
        }

    def sought_values(self, count: int) -> list[object]:
        return [int(user) for user in self.chance(Draw.SOUGHT, 1).integers(0, self.users, count)]
