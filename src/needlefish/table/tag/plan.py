"""What the tasks of one tagging need to know."""

from dataclasses import dataclass

import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.model.schema import RESERVED
from needlefish.store import open_store
from needlefish.table.snapshot import Snapshot

# What tagging adds to a frame.
TAG_COLUMNS = pa.schema([("chunkset", pa.string()), ("row", pa.int64()), ("partition", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class TagPlan:
    """One version of a table, and the frame's own types of the columns that decide where a key lives."""

    state: TableState
    store: StoreConfig
    delivered: tuple[pa.DataType, ...]

    def open(self) -> Snapshot:
        return Snapshot(store=open_store(self.store), state=self.state)

    @property
    def names(self) -> list[str]:
        """The deciding columns' names in results, which no frame's columns share."""
        return [f"{RESERVED}_{number}" for number in range(len(self.delivered))]

    @property
    def result_schema(self) -> pa.Schema:
        """The deciding columns as they were delivered, then the tag."""
        return pa.schema([*zip(self.names, self.delivered, strict=True), *TAG_COLUMNS])
