"""The result of `table.scan(...)`: an iterable of record batches with a receipt."""

from collections.abc import Iterator

import pyarrow as pa

from needlefish.store import Meter
from needlefish.table.scan import ScanPlan, ScanReceipt, scan_batches


class Scan:
    """Rows come as they are asked for, in bounded memory; every iteration reads anew.

    `receipt` says how the partitions were chosen, what was pruned and what was read; it grows during the iteration.
    """

    def __init__(self, plan: ScanPlan, meter: Meter) -> None:
        self._plan = plan
        self._meter = meter

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([field.to_arrow() for field in self._plan.columns])

    @property
    def receipt(self) -> ScanReceipt:
        return self._plan.receipt

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        before = self._meter.snapshot() - self.receipt.usage
        for batch in scan_batches(self._plan):
            self.receipt.usage = self._meter.snapshot() - before
            yield batch
        self.receipt.usage = self._meter.snapshot() - before

    def to_arrow(self) -> pa.Table:
        """All rows at once: for results that fit in memory."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pylist(self) -> list[dict[str, object]]:
        return list(self.to_arrow().to_pylist())

    def count(self) -> int:
        """How many rows match, without keeping them."""
        return sum(batch.num_rows for batch in self)
