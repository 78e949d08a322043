"""Reading changes: as a stream by version offsets, or as one batch between two versions.

The driver reads the log and plans; tasks read rows. An offset is the last version whose changes were read, so that a query that
is started again from its checkpoint goes on with the next one.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StringType, StructField, StructType

from needlefish.errors import InvalidError
from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.spark.source.change_options import ChangeOptions, change_options
from needlefish.spark.types import schema_to_spark
from needlefish.store import RetriedStore, open_store
from needlefish.table.changes import CHANGE, VERSION, Share, VersionChange, change_schema, changes_between, packed, share_rows, shares_of
from needlefish.table.changes.shares import SHARE_BYTES
from needlefish.timeline import read_newest, read_state_at

_OFFSET = "version"


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """For `spark.readStream.format("needlefish")`."""
    return ChangesStream(change_options(options), schema)


def changes_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """For `spark.read.format("needlefish")` with options that ask for changes."""
    return ChangesReader(change_options(options), schema)


def changes_schema(options: Mapping[str, str]) -> StructType:
    """The columns of the last version that is read, and those that say what happened unless `readChanges` is false."""
    parsed = change_options(options)
    store = open_store(parsed.store)
    state = _ending(store, parsed, read_newest(store))
    columns = schema_to_spark(state.definition.schema)
    if not parsed.with_changes:
        return columns
    change_schema(state.definition)
    return StructType([*columns.fields, StructField(CHANGE, StringType(), False), StructField(VERSION, LongType(), False)])


class ChangesPartition(InputPartition):
    """What one task reads, and under which columns."""

    def __init__(self, definition: TableDefinition, shares: tuple[Share, ...]) -> None:
        super().__init__(None)
        self.definition = definition
        self.shares = shares


class _Reading:
    """What both readers do: plan on the driver, read in tasks."""

    def __init__(self, options: ChangeOptions, schema: StructType) -> None:
        self._options = options
        self._output = to_arrow_schema(schema, timezone="UTC")

    @property
    def _has_changes(self) -> bool:
        return CHANGE in self._output.names

    def _open(self) -> RetriedStore:
        return open_store(self._options.store)

    def _planned(self, first: int, state: TableState) -> list[InputPartition]:
        """The changes of versions `first` up to that of `state`."""
        store = self._open()
        self._check_columns(state.definition)
        base = None if first <= 0 else read_state_at(store, first - 1, state)
        shares = (
            share
            for change in changes_between(store, base, state.version)
            for share in shares_of(self._checked(change), state.definition, SHARE_BYTES)
        )
        return [ChangesPartition(state.definition, some) for some in packed(shares)]

    def _checked(self, change: VersionChange) -> VersionChange:
        if change.removed and not self._has_changes:
            raise InvalidError(
                f"version {change.version} replaced or removed rows, which a stream of new rows cannot tell; ask for changes: option('readChanges', 'true')"
            )
        return change

    def _check_columns(self, definition: TableDefinition) -> None:
        """A query keeps the columns that it was started with."""
        known = {*definition.schema.names, CHANGE, VERSION}
        for name in self._output.names:
            if name not in known:
                raise InvalidError(
                    f"schema has column {name!r}, which the table does not have any more; start the query again to read its columns of now"
                )

    def _rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark asks for an empty partition where there are none.
        if not isinstance(partition, ChangesPartition):
            return
        store = self._open()
        for share in partition.shares:
            for batch in share_rows(store, partition.definition, share, before=self._options.before):
                yield _shown(batch, self._output)


class ChangesReader(_Reading, DataSourceReader):
    """The changes between two versions, as one batch."""

    def partitions(self) -> Sequence[InputPartition]:
        store = self._open()
        newest = read_newest(store)
        state = _ending(store, self._options, newest)
        first = _starting(self._options, newest)
        if first > state.version + 1:
            raise InvalidError(f"startingVersion is {first}, after endingVersion {state.version}; give the older version first")
        return self._planned(first, state)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows(partition)


class ChangesStream(_Reading, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The changes of each version once, in order of versions from one micro-batch to the next."""

    def __init__(self, options: ChangeOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        if options.ending is not None:
            raise InvalidError(f"endingVersion is {options.ending}, but a stream has no end; leave it out, or use spark.read")
        # For a trigger that reads what is there and ends.
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {_OFFSET: _starting(self._options, read_newest(self._open())) - 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark's own limits are all that it hands back; here a version stands for a file."""
        return ReadAllAvailable() if self._options.most_versions is None else ReadMaxFiles(self._options.most_versions)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        newest = read_newest(self._open()).version if self._last is None else self._last
        end = min(newest, start[_OFFSET] + limit.max_files) if isinstance(limit, ReadMaxFiles) else newest
        return {_OFFSET: max(end, start[_OFFSET])}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = read_newest(self._open()).version

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {_OFFSET: read_newest(self._open()).version}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if start[_OFFSET] >= end[_OFFSET]:
            return []
        store = self._open()
        return self._planned(start[_OFFSET] + 1, read_state_at(store, end[_OFFSET], read_newest(store)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._rows(partition)


def _starting(options: ChangeOptions, newest: TableState) -> int:
    """The first version whose changes are read."""
    if options.starting is None:
        return newest.version + 1
    if options.starting > newest.version + 1:
        raise InvalidError(
            f"startingVersion is {options.starting}, but the newest version is {newest.version}; give one that exists, or 'latest'"
        )
    return options.starting


def _ending(store: RetriedStore, options: ChangeOptions, newest: TableState) -> TableState:
    return newest if options.ending is None else read_state_at(store, options.ending, newest)


def _shown(batch: pa.RecordBatch, output: pa.Schema) -> pa.RecordBatch:
    """Types that Spark has; it wants exactly the columns that it was told."""
    columns = [batch[field.name].cast(field.type) for field in output]
    return pa.RecordBatch.from_arrays(columns, schema=output)
