"""DuckDB over the shared Parquet files, with its cache of Parquet metadata on or off."""

from collections.abc import Iterator, Sequence
from typing import ClassVar
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa

from benchmarks.peers.base import Peer, Unsupported
from benchmarks.peers.conditions import among, equals, only
from benchmarks.workloads.base import Key


class DuckDB(Peer):
    """A list of files instead of a pattern, so that no question pays for listing the folder."""

    name: ClassVar[str] = "duckdb"
    setup: ClassVar[str] = "in-memory database, a view over read_parquet of the folder, settings as they come"
    reads_shared: ClassVar[bool] = True
    caches_metadata: ClassVar[bool] = False

    def load(self) -> None:
        """Nothing: it reads the files where they are."""

    def open(self) -> None:
        self.close()
        self._connection = duckdb.connect()
        self._connection.execute("set TimeZone = 'UTC'")
        if not self.place.local:
            self._reach_object_store()
        if self.caches_metadata:
            self._connection.execute("set parquet_metadata_cache = true")
        self._connection.execute(f"create view rows as select * from read_parquet('{self.place.shared}/*.parquet')")

    def _reach_object_store(self) -> None:
        try:
            self._connection.execute("load httpfs")
        except duckdb.Error as error:
            raise Unsupported(f"the httpfs extension is not installed here: {error}") from error
        options, parts = self.place.options, urlsplit(self.place.options["aws_endpoint"])
        self._connection.execute(
            f"create secret (type s3, key_id '{options['aws_access_key_id']}', secret '{options['aws_secret_access_key']}',"
            f" region '{options['aws_region']}', endpoint '{parts.netloc}', use_ssl {parts.scheme == 'https'}, url_style 'path')"
        )

    def find(self, keys: Sequence[Key]) -> pa.Table:
        return only(self._rows(equals(self.workload.key, keys)), self.workload.key, keys)

    def find_by(self, values: Sequence[object]) -> pa.Table:
        return self._rows(among(self.workload.column, values))

    def _rows(self, condition: str) -> pa.Table:
        return self._connection.sql(f"select * from rows where {condition}").to_arrow_table()

    def scan(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._connection.sql(f"select {', '.join(columns)} from rows").to_arrow_reader()

    def close(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()


class DuckDBCached(DuckDB):
    """The same with Parquet metadata kept between questions."""

    name: ClassVar[str] = "duckdb-cached"
    setup: ClassVar[str] = "as duckdb, with parquet_metadata_cache = true"
    caches_metadata: ClassVar[bool] = True
