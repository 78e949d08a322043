"""Order lines: a key of two columns, one partition a day, and updates that come late, to days long past."""

from datetime import date, timedelta
from typing import ClassVar

import numpy as np
import pyarrow as pa

from benchmarks.workloads.base import Draw, Workload, drawn_texts, moments, random_ids

_FIRST_DAY = date(2026, 9, 1)
_DAYS = 60
_DAY_US = 86_400_000_000
_LINES = 4
_STATES = ("placed", "paid", "packed", "shipped", "delivered", "returned")
_LINES_PER_PRODUCT = 100


class Orders(Workload):
    """Each file belongs to one day; an order has four lines, and a line is (order_id, line)."""

    __slots__ = ()
    name: ClassVar[str] = "orders"
    key: ClassVar[tuple[str, ...]] = ("order_id", "line")
    partition_by: ClassVar[tuple[str, ...]] = ("day",)
    column: ClassVar[str] = "product_id"
    scanned: ClassVar[tuple[str, ...]] = ("product_id", "cents")
    schema: ClassVar[pa.Schema] = pa.schema(
        [
            pa.field("day", pa.date32(), nullable=False),
            pa.field("order_id", pa.string(), nullable=False),
            pa.field("line", pa.int32(), nullable=False),
            ("changed", pa.timestamp("us", tz="UTC")),
            ("product_id", pa.int64()),
            ("state", pa.string()),
            ("cents", pa.int64()),
        ]
    )

    @property
    def products(self) -> int:
        return max(1, self.sizes.total // _LINES_PER_PRODUCT)

    def keys(self, number: int) -> pa.Table:
        rows = self.sizes.rows
        orders = random_ids(-(-rows // _LINES), self.chance(Draw.KEYS, number))
        days = pa.array([_FIRST_DAY + timedelta(days=number % _DAYS)]).take(pa.array(np.zeros(rows, np.int32)))
        order = orders.take(pa.array(np.arange(rows) // _LINES))
        return pa.table({"day": days, "order_id": order, "line": pa.array((np.arange(rows) % _LINES).astype(np.int32))})

    def values(self, keys: pa.Table, chance: np.random.Generator) -> dict[str, pa.Array]:
        rows = len(keys)
        days = keys["day"].cast(pa.int32()).to_numpy().astype(np.int64)
        return {
            "changed": moments(0, days * _DAY_US + chance.integers(0, 10 * _DAY_US, rows)),
            "product_id": pa.array(chance.integers(0, self.products, rows)),
            "state": drawn_texts(_STATES, rows, chance),
            "cents": pa.array(chance.integers(50, 100_000, rows)),
        }

    def sought_values(self, count: int) -> list[object]:
        return [int(product) for product in self.chance(Draw.SOUGHT, 1).integers(0, self.products, count)]
