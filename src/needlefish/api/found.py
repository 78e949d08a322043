"""The result of `table.find(...)`: rows and the receipt of finding them."""

import pyarrow as pa

from needlefish.table.find import FindReceipt


class Found:
    """Rows that hold a wanted value; `receipt` says what every level let pass and what it cost."""

    def __init__(self, rows: pa.Table, receipt: FindReceipt) -> None:
        self._rows = rows
        self.receipt = receipt

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def to_arrow(self) -> pa.Table:
        return self._rows

    def to_pylist(self) -> list[dict[str, object]]:
        return list(self._rows.to_pylist())

    def __repr__(self) -> str:
        return f"Found({len(self)} rows, {self.receipt.requests} requests, {self.receipt.bytes_read} bytes)"
