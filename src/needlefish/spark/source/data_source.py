"""What Spark holds of the format "needlefish": each method opens what one way of using a table needs, when it is used.

What writes and what reads changes is loaded then too: Spark asks a new process for every step.
"""

from collections.abc import MutableMapping
from dataclasses import replace

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from needlefish.spark.source.change_options import asks_for_changes
from needlefish.spark.source.declared import with_note, with_noted
from needlefish.spark.source.options import is_declaration, read_options
from needlefish.spark.source.reader import PushingReader, TableReader, open_state, read_schema

FORMAT = "needlefish"


class NeedlefishSource(DataSource):
    """One table, by its path.

    Options for reading, all texts: `path` (what `load` is given), `version` (a number), `timestamp` (an ISO time, or
    milliseconds since 1970), `columns` (`id, ts`, or a JSON list), `partitions` (a JSON object: `{"day": "2026-11-01"}`),
    `where` (a SQL condition, as `scan` takes it), `pushdown` (`true` lets Spark push filters too, `false` never);
    and for any use `storage.NAME`, whose NAME is one of the store's own (`storage.aws_endpoint`).
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        # Spark keeps this object for as long as the frame lives, so that all reads of a frame see one version.
        self._version: int | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        if asks_for_changes(self.options):
            from needlefish.spark.source.stream_read import changes_schema

            return changes_schema(self.options)
        options = read_options(self.options)
        state = open_state(options)
        self._version = state.version
        schema = read_schema(options, state)
        return with_note(schema, self.options) if is_declaration(self.options) else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        if asks_for_changes(self.options):
            from needlefish.spark.source.stream_read import changes_reader

            return changes_reader(self.options, schema)
        options = read_options(with_noted(self.options, schema))
        if self._version is not None:
            options = replace(options, version=self._version, timestamp_ms=None)
        kind = PushingReader if options.pushdown else TableReader
        return kind(options, open_state(options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from needlefish.spark.source.write import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from needlefish.spark.source.stream_read import stream_reader

        return stream_reader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from needlefish.spark.source.stream_write import stream_writer

        return stream_writer(self.options, schema, overwrite)
