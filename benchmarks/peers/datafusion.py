"""DataFusion over the shared Parquet files, with filters pushed down into the reader and Bloom filters on."""

from collections.abc import Iterator, Sequence
from typing import ClassVar
from urllib.parse import urlsplit

import pyarrow as pa
from datafusion import SessionConfig, SessionContext
from datafusion.object_store import AmazonS3

from benchmarks.peers.base import Peer
from benchmarks.peers.conditions import among, equals, only
from benchmarks.workloads.base import Key


class DataFusion(Peer):
    """Its statistics and metadata caches are on by default and kept with the context."""

    name: ClassVar[str] = "datafusion"
    setup: ClassVar[str] = "register_parquet of the folder; pushdown_filters, reorder_filters, bloom_filter_on_read and pruning on"
    reads_shared: ClassVar[bool] = True

    def load(self) -> None:
        """Nothing: it reads the files where they are."""

    def open(self) -> None:
        parquet = ("pushdown_filters", "reorder_filters", "bloom_filter_on_read", "pruning", "enable_page_index")
        config = SessionConfig()
        for setting in parquet:
            config = config.set(f"datafusion.execution.parquet.{setting}", "true")
        self._context = SessionContext(config)
        if not self.place.local:
            self._reach_object_store()
        self._context.register_parquet("rows", f"{self.place.shared}/")

    def _reach_object_store(self) -> None:
        options, bucket = self.place.options, urlsplit(self.place.shared).netloc
        store = AmazonS3(
            bucket_name=bucket,
            region=options["aws_region"],
            access_key_id=options["aws_access_key_id"],
            secret_access_key=options["aws_secret_access_key"],
            endpoint=options["aws_endpoint"],
            allow_http=True,
        )
        self._context.register_object_store("s3://", store, host=bucket)

    def find(self, keys: Sequence[Key]) -> pa.Table:
        return only(self._rows(equals(self.workload.key, keys)), self.workload.key, keys)

    def find_by(self, values: Sequence[object]) -> pa.Table:
        return self._rows(among(self.workload.column, values))

    def _rows(self, condition: str) -> pa.Table:
        # Views of strings are its own type; the files' types make it Arrow that all peers have.
        return self._context.sql(f"select * from rows where {condition}").to_arrow_table().cast(self.workload.schema)

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for batch in self._context.sql(f"select {', '.join(columns)} from rows").execute_stream():
            yield batch.to_pyarrow()
