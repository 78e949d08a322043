"""The streaming sink: each epoch is one version, and an epoch that comes again does nothing.

The log entry that makes an epoch's rows true records the query and the epoch's number. The query's own id is in its checkpoint,
so that a query that is started again counts on; `application` is for those who want to choose the name.

All tasks of an epoch work for one attempt, which they name by themselves: after query, run, epoch and the version they read, so
that they agree, and an epoch that comes again is another attempt.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import xxhash
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.log import Batch
from needlefish.runtime import SYSTEM
from needlefish.services.merge import tidy
from needlefish.spark.source.write_options import stream_options
from needlefish.spark.source.write_target import Target, find_target, open_or_create
from needlefish.store import open_store
from needlefish.table.delivered import Delivery, commit_attempt
from needlefish.table.delivered.task import results_of
from needlefish.timeline import read_newest, read_state_at
from needlefish.timeline.detached import Detached, abandon

# Spark tells its tasks whose they are: the query, one start of it (as the group of its jobs), and the epoch.
_QUERY_ID = "sql.streaming.queryId"
_RUN_ID = "spark.jobGroup.id"
_EPOCH = "streaming.sql.batchId"


class WrittenInEpoch(WriterCommitMessage):
    """What one task wrote, under which version of the table, for which query, and in which attempt."""

    def __init__(self, result: bytes, version: int, query: str | None, detached: Detached | None) -> None:
        self.result = result
        self.version = version
        self.query = query
        self.detached = detached


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
        query, run, epoch = (_told(name) for name in (_QUERY_ID, _RUN_ID, _EPOCH))
        task = self._target.task
        if query is not None and run is not None and epoch is not None:
            task = self._target.attempted(attempt_of(query, run, epoch, task.version))
        # Else the files bear no attempt's name: a clean goes by their age, since nothing else can be known of them.
        return WrittenInEpoch(task(iterator), task.version, query, task.detached)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        known = _known(messages)
        if not known:
            return
        store = open_store(self._store)
        state = read_state_at(store, min(message.version for message in known), read_newest(store))
        delivery = Delivery(
            operation=self._target.delivery.operation,
            order_by=self._target.delivery.order_by,
            batch=Batch(application=self._name(known[0]), number=batchId),
        )
        detached = known[0].detached or replace(self._target.detached(SYSTEM.new_owner()), base=state.version)
        tidy(store, commit_attempt(store, state, detached, results_of(message.result for message in known), delivery))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Where no task has said anything, nobody knows the attempt any more; it stops beating, and a clean rolls it back."""
        for detached in {message.detached for message in _known(messages) if message.detached is not None}:
            store = open_store(self._store)
            abandon(store, read_newest(store), detached, f"epoch {batchId} failed", SYSTEM)

    def _name(self, message: WrittenInEpoch) -> str:
        name = self._application or message.query
        if name is None:
            raise InvalidError(
                "application is not given, and Spark does not say which query this is; name it: option('application', 'readings')"
            )
        return name


def attempt_of(query: str, run: str, epoch: str, version: int) -> str:
    """16 hex digits. The version keeps apart what Spark might do twice in one run, with a commit in between."""
    return xxhash.xxh64_hexdigest("\n".join((query, run, epoch, str(version))).encode())


def _told(name: str) -> str | None:
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def _known(messages: Sequence[WriterCommitMessage | None]) -> list[WrittenInEpoch]:
    return [message for message in messages if isinstance(message, WrittenInEpoch)]
