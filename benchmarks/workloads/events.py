"""Events of users with heavy skew: a few users make most of them, most users make a handful."""

from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Draw, Workload, drawn_texts, moments

_FIRST_US = 1_793_491_200_000_000
_FILE_US = 60_000_000
_KINDS = ("view", "click", "search", "add", "buy", "leave")
_ROWS_PER_USER = 20
# Numbers of events are spread by a product with an odd constant, which is a bijection of 64 bits: unique, in no order.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Events(Workload):
    """With u uniform, user = users * u^3: of a million users the first alone has one event in a hundred."""

    __slots__ = ()
    name: ClassVar[str] = "events"
    key: ClassVar[tuple[str, ...]] = ("event_id",)
    column: ClassVar[str] = "user_id"
    scanned: ClassVar[tuple[str, ...]] = ("user_id", "amount")
    schema: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("event_id", pa.int64(), nullable=False),
            ("ts", pa.timestamp("us", tz="UTC")),
            ("user_id", pa.int64()),
            ("kind", pa.string()),
            ("amount", pa.int64()),
        ]
    )

    @property
    def users(self) -> int:
        return max(4, self.sizes.total // _ROWS_PER_USER)

    def keys(self, number: int) -> pa.Table:
        counted = np.arange(number * self.sizes.rows, (number + 1) * self.sizes.rows, dtype=np.uint64)
        return pa.table({"event_id": (counted * _SPREAD).view(np.int64)})

    def values(self, keys: pa.Table, chance: np.random.Generator) -> dict[str, pa.Array]:
        rows = len(keys)
        start = int(chance.integers(0, self.sizes.files)) * _FILE_US
        return {
            "ts": moments(_FIRST_US + start, chance.integers(0, _FILE_US, rows)),
            "user_id": pa.array((self.users * chance.random(rows) ** 3).astype(np.int64)),
            "kind": drawn_texts(_KINDS, rows, chance),
            "amount": pa.array(chance.integers(0, 10_000, rows)),
        }

    def sought_values(self, count: int) -> list[object]:
        """Of the quieter half of the users."""
        return [int(user) for user in self.chance(Draw.SOUGHT, 1).integers(self.users // 2, self.users, count)]

    def hot_values(self, count: int) -> list[object]:
        return list(range(min(count, self.users)))
