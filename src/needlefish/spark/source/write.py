"""The batch writer: tasks sort and write the rows that Spark gives them, the driver commits by what they hand back.

All of them work for one attempt, which is drawn here and is in the log before the first file. Nothing is visible before the
commit. What tasks wrote and no commit names, since one failed, was repeated or ran twice, a clean removes once the attempt is over.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from needlefish.errors import AlreadyExistsError
from needlefish.runtime import SYSTEM
from needlefish.services.merge import tidy
from needlefish.spark.source.declared import with_noted
from needlefish.spark.source.write_options import batch_options
from needlefish.spark.source.write_target import Target, find_target
from needlefish.store import open_store
from needlefish.table.create import create_table
from needlefish.table.delivered import commit_attempt
from needlefish.table.delivered.task import results_of
from needlefish.table.task import collect
from needlefish.timeline.detached import abandon


class Written(WriterCommitMessage):
    """What one task wrote, or why its rows were refused."""

    def __init__(self, result: bytes) -> None:
        self.result = result


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """For `df.write.format("needlefish")`; Spark 4.3 lets the modes append and overwrite through, `ifExists` stands for the others."""
    # INSERT into a table that is declared in a catalog says nothing but its schema.
    parsed = batch_options(CaseInsensitiveDict(with_noted(options, schema)), overwrite=overwrite)
    store = open_store(parsed.store)
    target = find_target(store, parsed, schema)
    if target.state is not None and parsed.if_exists == "error":
        raise AlreadyExistsError(
            f"{store.uri} holds a table already (version {target.state.version}) and ifExists is error; choose another"
        )
    return NothingWriter() if target.state is not None and parsed.if_exists == "ignore" else TableWriter(target)


class TableWriter(DataSourceArrowWriter):
    """One write. Spark pickles it and sends it to every task, and to the process that commits."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._attempt = SYSTEM.new_owner()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return Written(self._target.attempted(self._attempt)(iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        target = self._target
        store = open_store(target.task.store)
        results = results_of(message.result for message in messages if isinstance(message, Written))
        state = target.state
        if state is None:
            # Before a table is made for them: rows that are refused leave nothing.
            collect(results)
            state = create_table(store, target.definition)
        tidy(store, commit_attempt(store, state, target.detached(self._attempt), results, target.delivery))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Also after a commit that failed: one whose answer was lost has ended the attempt, and stands."""
        target = self._target
        if target.state is not None:
            abandon(open_store(target.task.store), target.state, target.detached(self._attempt), "the write failed", SYSTEM)


class NothingWriter(DataSourceArrowWriter):
    """For a table that exists already, where that means that there is nothing to do."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return WriterCommitMessage()
