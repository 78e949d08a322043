"""The streaming sink: each epoch is one version, and an epoch that comes again does nothing.

The log entry that makes an epoch's rows true records the query and the epoch's number. The query's own id is in its checkpoint,
so that a query that is started again counts on; `application` is for those who want to choose the name.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.log import Batch
from needlefish.services.merge import tidy
from needlefish.spark.source.write_options import stream_options
from needlefish.spark.source.write_target import Target, find_target, open_or_create
from needlefish.store import open_store
from needlefish.table.delivered import Delivery, commit_delivery
from needlefish.table.delivered.task import results_of
from needlefish.table.task import collect
from needlefish.timeline import read_newest, read_state_at

# Spark tells its tasks whose they are.
_QUERY_ID = "sql.streaming.queryId"


class WrittenInEpoch(WriterCommitMessage):
    """What one task wrote, under which version of the table, and for which query."""

    def __init__(self, result: bytes, version: int, query: str | None) -> None:
        self.result = result
        self.version = version
        self.query = query


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """For `df.writeStream.format("needlefish")`: the table is made, if there is none, before the first epoch."""
    parsed = stream_options(options, overwrite=overwrite)
    store = open_or_create(parsed, schema)
    return EpochWriter(find_target(store, parsed, schema), parsed.application)


class EpochWriter(DataSourceStreamArrowWriter):
    """Spark makes one to write and another to commit, so that what both must know travels with the messages."""

    def __init__(self, target: Target, application: str | None) -> None:
        self._target = target
        self._application = application

    @property
    def _store(self) -> StoreConfig:
        return self._target.task.store

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        return WrittenInEpoch(self._target.task(iterator), self._target.task.version, query)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        known = [message for message in messages if isinstance(message, WrittenInEpoch)]
        if not known:
            return
        store = open_store(self._store)
        state = read_state_at(store, min(message.version for message in known), read_newest(store))
        delivery = Delivery(
            operation=self._target.delivery.operation,
            order_by=self._target.delivery.order_by,
            batch=Batch(application=self._name(known[0]), number=batchId),
        )
        written = collect(results_of(message.result for message in known))
        tidy(store, commit_delivery(store, state, written, delivery).state)

    def _name(self, message: WrittenInEpoch) -> str:
        name = self._application or message.query
        if name is None:
            raise InvalidError(
                "application is not given, and Spark does not say which query this is; name it: option('application', 'readings')"
            )
        return name
