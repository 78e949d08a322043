"""Needlefish itself, through the names that its users have."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

import needlefish as nf
from benchmarks.peers.base import Peer, Traffic, Unsupported
from benchmarks.peers.needlefish_load import load_files
from benchmarks.workloads.base import Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Needlefish(Peer):
    """Files as they arrive, one chunkset each: random keys overlap, as they would in a table that grew."""

    name: ClassVar[str] = "needlefish"
    setup: ClassVar[str] = (
        "one chunkset for each file of the workload, in ten commits; postings index on the key and one on the column; "
        "upsert and delete on a Spark session that stays up"
    )

    def load(self) -> None:
        table = nf.Table.create(
            self.place.own,
            self.workload.schema,
            key=list(self.workload.key),
            partition_by=list(self.workload.partition_by),
            properties={"chunkset_rows": self.workload.sizes.rows},
            storage_options=dict(self.place.options),
            indexes=[nf.PointIndex(self.workload.column)],
        )
        load_files(table.uri, self.place.options, self.workload)

    def open(self) -> None:
        self._counted: Traffic | None = None
        self._table = nf.Table.open(self.place.own, storage_options=dict(self.place.options))

    def find(self, keys: Sequence[Key]) -> pa.Table:
        columns = self.workload.key
        if len(columns) == 1:
            wanted = [key[0] for key in keys]
            return self._told(self._table.find({columns[0]: wanted[0] if len(wanted) == 1 else wanted}))
        return self._told(self._table.find(list(keys)))

    def find_by(self, values: Sequence[object]) -> pa.Table:
        return self._told(self._table.find({self.workload.column: values[0] if len(values) == 1 else list(values)}))

    def _told(self, found: nf.Found) -> pa.Table:
        self._counted = Traffic(requests=found.receipt.requests, read_bytes=found.receipt.bytes_read)
        return found.to_arrow()

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        scanned = self._table.scan(columns=columns)
        yield from scanned
        self._counted = Traffic(requests=scanned.receipt.usage.requests, read_bytes=scanned.receipt.usage.bytes_read)

    def ready_to_write(self) -> None:
        nf.spark_session(app="needlefish benchmark")

    def upsert(self, batch: Path) -> None:
        self._table.upsert(_frame(batch))

    def delete(self, keys: Path) -> None:
        self._table.delete(_frame(keys))

    def maintain(self) -> None:
        self._require("run")
        self._table.run("compaction")

    def _require(self, verb: str) -> None:
        if not hasattr(self._table, verb):
            raise Unsupported(f"not yet: needlefish {nf.__version__} has no Table.{verb}")

    def traffic(self) -> Traffic | None:
        return self._counted


def _frame(path: Path) -> "DataFrame":
    return nf.spark_session(app="needlefish benchmark").read.parquet(str(path))
