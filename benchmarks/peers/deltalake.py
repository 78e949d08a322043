"""delta-rs: the shared files converted in place, questions through its DataFusion engine, merge for upserts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import (
    BloomFilterProperties,
    ColumnProperties,
    DeltaTable,
    WriterProperties,
    convert_to_deltalake,
    write_deltalake,
)
from deltalake.table import TableMerger

from benchmarks.peers.base import Peer
from benchmarks.peers.conditions import among, equals, only
from benchmarks.peers.shared_files import linked
from benchmarks.workloads.base import Key

# Files of a partitioned table that go into one commit.
_COMMIT_FILES = 60


class DeltaLake(Peer):
    """Where a table has partitions Delta wants folders of its own, so that the rows are written anew by its writer."""

    name: ClassVar[str] = "deltalake"
    setup: ClassVar[str] = (
        "shared files converted to a table (partitioned ones written by delta-rs); DeltaTable.scan; merge; optimize.compact"
    )

    def load(self) -> None:
        if self.workload.partition_by or not self.place.local:
            self._write()
        else:
            linked(self.place)
            convert_to_deltalake(self._uri)

    @property
    def _uri(self) -> str:
        return f"{self.place.own}/data"

    def _write(self) -> None:
        files = self.workload.sizes.files
        for first in range(0, files, _COMMIT_FILES):
            rows = pa.concat_tables([self.workload.file(number) for number in range(first, min(files, first + _COMMIT_FILES))])
            partitions = list(self.workload.partition_by)
            options = dict(self.place.options)
            write_deltalake(
                self._uri, rows, mode="append", partition_by=partitions or None, writer_properties=self._writing, storage_options=options
            )

    @property
    def _writing(self) -> WriterProperties:
        filtered = ColumnProperties(bloom_filter_properties=BloomFilterProperties(True, fpp=0.01, ndv=self.workload.sizes.rows))
        return WriterProperties(compression="ZSTD", column_properties=dict.fromkeys((self.workload.key[0], self.workload.column), filtered))

    def open(self) -> None:
        self._table = DeltaTable(self._uri, storage_options=dict(self.place.options))

    def find(self, keys: Sequence[Key]) -> pa.Table:
        return only(self._rows(equals(self.workload.key, keys)), self.workload.key, keys)

    def find_by(self, values: Sequence[object]) -> pa.Table:
        return self._rows(among(self.workload.column, values))

    def _rows(self, condition: str) -> pa.Table:
        return pa.table(self._table.scan(predicate=condition)).select(self.workload.schema.names).cast(self.workload.schema)

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from pa.RecordBatchReader.from_stream(self._table.scan(columns=list(columns)))

    def upsert(self, batch: Path) -> None:
        self._merge(batch).when_matched_update_all().when_not_matched_insert_all().execute()

    def delete(self, keys: Path) -> None:
        self._merge(keys).when_matched_delete().execute()

    def _merge(self, source: Path) -> TableMerger:
        columns = (*self.workload.partition_by, *self.workload.key)
        same = " and ".join(f"t.{column} = s.{column}" for column in columns)
        return self._table.merge(pq.read_table(source), same, source_alias="s", target_alias="t", writer_properties=self._writing)

    def maintain(self) -> None:
        self._table.optimize.compact(writer_properties=self._writing)
