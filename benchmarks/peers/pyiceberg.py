"""PyIceberg with a SQLite catalogue: the shared files added to a table as they are, upsert by its own verb."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In
from pyiceberg.table.upsert_util import create_match_filter
from pyiceberg.transforms import IdentityTransform

from benchmarks.peers.base import Peer, Unsupported
from benchmarks.peers.conditions import only
from benchmarks.peers.shared_files import linked
from benchmarks.workloads.base import Key

_NAME = "bench.rows"


class PyIceberg(Peer):
    """Files are added without being rewritten; rows that change are rewritten with their files, as its delete mode does."""

    name: ClassVar[str] = "pyiceberg"
    setup: ClassVar[str] = (
        "SQLite catalogue, add_files of the shared files; upsert and delete as documented; it neither writes nor reads Bloom filters"
    )

    def load(self) -> None:
        if not self.place.local:
            raise Unsupported("its SQLite catalogue is measured on a local disk only")
        Path(self.place.own).mkdir(parents=True, exist_ok=True)
        catalog = self._catalog()
        catalog.create_namespace("bench")
        table = catalog.create_table(_NAME, schema=self.workload.schema, properties={"write.parquet.compression-codec": "zstd"})
        if self.workload.partition_by:
            with table.update_spec() as spec:
                for column in self.workload.partition_by:
                    spec.add_field(column, IdentityTransform(), f"{column}_part")
        table.add_files(linked(self.place))
        catalog.close()

    def _catalog(self) -> SqlCatalog:
        return SqlCatalog("bench", uri=f"sqlite:///{self.place.own}/catalog.db", warehouse=f"file://{self.place.own}/warehouse")

    def open(self) -> None:
        self.close()
        self._opened = self._catalog()
        self._table = self._opened.load_table(_NAME)

    def find(self, keys: Sequence[Key]) -> pa.Table:
        columns = self.workload.key
        if len(keys) == 1:
            return self._rows(_all([EqualTo(column, part) for column, part in zip(columns, keys[0], strict=True)]))
        return only(self._rows(In(columns[0], {key[0] for key in keys})), columns, keys)

    def find_by(self, values: Sequence[object]) -> pa.Table:
        return self._rows(In(self.workload.column, set(values)) if len(values) > 1 else EqualTo(self.workload.column, values[0]))

    def _rows(self, wanted: BooleanExpression) -> pa.Table:
        return self._table.scan(row_filter=wanted).to_arrow().cast(self.workload.schema)

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()

    def upsert(self, batch: Path) -> None:
        rows = pq.read_table(batch, schema=self.workload.schema)
        self._table.upsert(rows, join_cols=[*self.workload.partition_by, *self.workload.key])

    def delete(self, keys: Path) -> None:
        self._table.delete(create_match_filter(pq.read_table(keys), list(self.workload.key)))

    def maintain(self) -> None:
        raise Unsupported("PyIceberg expires snapshots but does not compact files; that is left to Spark or Trino")

    def close(self) -> None:
        if hasattr(self, "_opened"):
            self._opened.close()


def _all(parts: Sequence[BooleanExpression]) -> BooleanExpression:
    return parts[0] if len(parts) == 1 else And(*parts)
