"""One find under way: what it looks for, where, and who is charged."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from needlefish.model.chunkset import ChunksetInfo, PartitionPath
from needlefish.store import Meter
from needlefish.table.find.receipt import FindReceipt, LevelReceipt
from needlefish.table.find.wanted import Wanted
from needlefish.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A chunkset and the wanted values it may hold."""

    info: ChunksetInfo
    wanted: Wanted
    # The only granules that may hold them, where a point index says so.
    granules: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One find under way. `partitions` are the only ones worth looking at; None means all.

    With `by_partition` each partition is asked for values of its own, which are parts of `wanted`.
    """

    snapshot: Snapshot
    wanted: Wanted
    partitions: Collection[PartitionPath] | None
    receipt: FindReceipt
    meter: Meter
    by_partition: Mapping[PartitionPath, Wanted] | None = None

    def wanted_in(self, partition: PartitionPath) -> Wanted | None:
        """What to look for in a partition, if anything."""
        return self.wanted if self.by_partition is None else self.by_partition.get(partition)

    def complain(self, text: str) -> None:
        if text not in self.receipt.unreadable:
            self.receipt.unreadable.append(text)


def charged(search: Search, level: LevelReceipt, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Counts what pulling the stream costs as the level's."""
    while True:
        before = search.meter.snapshot()
        batch = next(stream, None)
        level.usage = level.usage + (search.meter.snapshot() - before)
        if batch is None:
            return
        yield batch
