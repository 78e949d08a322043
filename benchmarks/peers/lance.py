"""Lance with a BTREE index, and Lance with its Bloom filter index, on the key and on the column that is asked by."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

# Read when lance is imported. Its default fails at merging 250,000 rows: the rows to merge must fit into the pool.
os.environ.setdefault("LANCE_MEM_POOL_SIZE", str(4 << 30))

import lance
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers.base import Peer, Traffic
from benchmarks.peers.conditions import among, equals, only
from benchmarks.workloads.base import Key


class LanceBTree(Peer):
    """Rows in files of Lance's own default length: the documentation advises few large fragments."""

    name: ClassVar[str] = "lance-btree"
    setup: ClassVar[str] = (
        "write_dataset as it comes, BTREE on key and column; memory pool of 4 GiB; merge_insert; compact_files and optimize_indices"
    )
    index: ClassVar[Literal["BTREE", "BLOOMFILTER"]] = "BTREE"

    def load(self) -> None:
        files = map(self.workload.file, range(self.workload.sizes.files))
        batches = (batch for rows in files for batch in rows.to_batches())
        stream = pa.RecordBatchReader.from_batches(self.workload.schema, batches)
        dataset = lance.write_dataset(stream, self._uri, storage_options=self._options)
        for column in dict.fromkeys((*self.workload.key, self.workload.column)):
            dataset.create_scalar_index(column, self.index)

    @property
    def _uri(self) -> str:
        return f"{self.place.own}/rows.lance"

    @property
    def _options(self) -> dict[str, str] | None:
        return dict(self.place.options) or None

    def open(self) -> None:
        # A session holds the caches; a new one makes the handle cold.
        self._dataset = lance.dataset(self._uri, storage_options=self._options, session=lance.Session())

    def find(self, keys: Sequence[Key]) -> pa.Table:
        return only(self._dataset.to_table(filter=equals(self.workload.key, keys)), self.workload.key, keys)

    def find_by(self, values: Sequence[object]) -> pa.Table:
        return self._dataset.to_table(filter=among(self.workload.column, values))

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._dataset.to_batches(columns=list(columns))

    def upsert(self, batch: Path) -> None:
        rows = pq.read_table(batch, schema=self.workload.schema)
        self._dataset.merge_insert(list(self.workload.key)).when_matched_update_all().when_not_matched_insert_all().execute(rows)
        self._renew()

    def delete(self, keys: Path) -> None:
        self._dataset.merge_insert(list(self.workload.key)).when_matched_delete().execute(pq.read_table(keys))
        self._renew()

    def maintain(self) -> None:
        self._dataset.optimize.compact_files()
        self._dataset.optimize.optimize_indices()
        self._renew()

    def traffic(self) -> Traffic:
        counted = self._dataset.io_stats_incremental()
        return Traffic(requests=counted.read_iops, read_bytes=counted.read_bytes)

    def _renew(self) -> None:
        self._dataset.checkout_latest()


class LanceBloom(LanceBTree):
    """The small index: it rules out zones of rows and reads those that are left."""

    name: ClassVar[str] = "lance-bloom"
    setup: ClassVar[str] = "as lance-btree, with BLOOMFILTER indexes"
    index: ClassVar[Literal["BTREE", "BLOOMFILTER"]] = "BLOOMFILTER"
