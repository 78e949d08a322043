"""The batch reader: options and filters become a `SourceRead`, which is planned once and read by tasks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.model.schema import Field, Schema
from needlefish.spark.source.filters import pushed
from needlefish.spark.source.options import ReadOptions
from needlefish.spark.types import schema_to_spark, spark_type
from needlefish.store import open_store
from needlefish.table.predicate import Predicate, both, parse_where
from needlefish.table.predicate.tree import TRUE
from needlefish.table.snapshot import Snapshot
from needlefish.table.source import SourceRead, decode_pieces, new_receipt, plan_source, read_pieces, shares
from needlefish.timeline import read_newest, read_state_at, version_at_time


def open_state(options: ReadOptions) -> TableState:
    """The version that the options name."""
    store = open_store(options.store)
    newest = read_newest(store)
    version = options.version if options.timestamp_ms is None else version_at_time(store, options.timestamp_ms, newest)
    return newest if version is None else read_state_at(store, version, newest)


def read_schema(options: ReadOptions, state: TableState) -> StructType:
    """The asked columns, in the order in which they are asked for; what the options say of others is checked as well."""
    schema = state.definition.schema
    _where(options, schema)
    asked: Sequence[Field] = schema.fields if options.columns is None else [schema.field(name, "columns") for name in options.columns]
    return schema_to_spark(replace(schema, fields=tuple(asked)))


def _where(options: ReadOptions, schema: Schema) -> Predicate:
    return TRUE if options.where is None else parse_where(options.where, schema)


class TableReader(DataSourceReader):
    """One read of one version. Spark pickles it and sends it to every task."""

    def __init__(self, options: ReadOptions, state: TableState, schema: StructType) -> None:
        self._store = options.store
        self._fields = _fields(schema, state.definition.schema)
        self.request = SourceRead(
            state=state,
            columns=tuple(self._fields.values()),
            output=to_arrow_schema(schema, timezone="UTC"),
            predicate=_where(options, state.definition.schema),
            partitions=options.partitions,
        )

    def partitions(self) -> list[InputPartition]:
        store = open_store(self._store)
        plan = plan_source(Snapshot(store=store, state=self.request.state), self.request, store.meter)
        return [InputPartition(share) for share in shares(plan.pieces)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        snapshot = Snapshot(store=open_store(self._store), state=self.request.state)
        return read_pieces(snapshot, self.request, decode_pieces(partition.value), new_receipt(self.request))


class PushingReader(TableReader):
    """The same where Spark may push filters. A class of its own, since Spark asks for a setting before it reads through one that can."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Takes what it can answer; yields what Spark has to look at again."""
        for found in filters:
            taken = pushed(found, self._fields)
            if taken is not None:
                self.request = replace(self.request, predicate=both(self.request.predicate, taken.predicate))
            if taken is None or not taken.exact:
                yield found


def _fields(schema: StructType, table: Schema) -> Mapping[str, Field]:
    """The table's columns by Spark's names, which may differ in case; a schema that somebody gave must fit."""
    known = {field.name.lower(): field for field in table.fields}
    found: dict[str, Field] = {}
    for column in schema:
        field = known.get(column.name.lower())
        if field is None:
            raise InvalidError(
                f"schema has column {column.name!r}, which the table does not have; leave the schema out, or declare the table anew: "
                f"its columns are {', '.join(table.names)}"
            )
        given, stored = column.dataType.simpleString(), spark_type(field.arrow_type).simpleString()
        if given != stored:
            raise InvalidError(
                f"schema has column {column.name!r} as {given}, but the table has {stored}; leave the schema out, or declare the table anew"
            )
        found[column.name] = field
    return found
