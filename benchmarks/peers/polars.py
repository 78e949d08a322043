"""Polars over the shared Parquet files: a lazy scan with the filter pushed down."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import polars as pl
import pyarrow as pa

from benchmarks.peers.base import Peer
from benchmarks.peers.conditions import only
from benchmarks.workloads.base import Key


class Polars(Peer):
    """It prunes row groups by statistics; it does not read Bloom filters."""

    name: ClassVar[str] = "polars"
    setup: ClassVar[str] = "scan_parquet of the folder, filter pushed down, streaming engine"
    reads_shared: ClassVar[bool] = True

    def load(self) -> None:
        """Nothing: it reads the files where they are."""

    def open(self) -> None:
        options = dict(self.place.options) or None
        self._frame = pl.scan_parquet(f"{self.place.shared}/*.parquet", storage_options=options)

    def find(self, keys: Sequence[Key]) -> pa.Table:
        columns = self.workload.key
        if len(keys) == 1:
            wanted = [pl.col(column) == part for column, part in zip(columns, keys[0], strict=True)]
            return self._rows(pl.all_horizontal(wanted))
        return only(self._rows(pl.col(columns[0]).is_in([key[0] for key in keys])), columns, keys)

    def find_by(self, values: Sequence[object]) -> pa.Table:
        column = pl.col(self.workload.column)
        return self._rows(column == values[0] if len(values) == 1 else column.is_in(list(values)))

    def _rows(self, wanted: pl.Expr) -> pa.Table:
        return self._frame.filter(wanted).collect(engine="streaming").to_arrow().cast(self.workload.schema)

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._frame.select(columns).collect(engine="streaming").to_arrow().to_batches()
