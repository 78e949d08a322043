"""Spark over the shared Parquet files, on one session that stays up."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa

import needlefish as nf
from benchmarks.peers.base import Peer, Unsupported
from benchmarks.peers.conditions import among, equals, only
from benchmarks.workloads.base import Key


class Spark(Peer):
    """A fresh handle is a fresh DataFrame, which lists the files anew; starting the session is nobody's time."""

    name: ClassVar[str] = "spark"
    setup: ClassVar[str] = "spark.read.parquet of the folder on a local session; Spark reads the files' Bloom filters by default"
    reads_shared: ClassVar[bool] = True

    def load(self) -> None:
        """Only the session: the files are where they are."""
        nf.spark_session(app="needlefish benchmark")

    def open(self) -> None:
        if not self.place.local:
            raise Unsupported("this Spark comes without the Hadoop S3 connector")
        self._frame = nf.spark_session(app="needlefish benchmark").read.parquet(self.place.shared)

    def find(self, keys: Sequence[Key]) -> pa.Table:
        return only(self._rows(equals(self.workload.key, keys)), self.workload.key, keys)

    def find_by(self, values: Sequence[object]) -> pa.Table:
        return self._rows(among(self.workload.column, values))

    def _rows(self, condition: str) -> pa.Table:
        return self._frame.where(condition).toArrow().cast(self.workload.schema)

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._frame.select(*columns).toArrow().to_batches()
