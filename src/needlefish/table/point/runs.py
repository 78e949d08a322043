"""Index entries of one task on their way into runs: a bounded number of keys at a time."""

from collections.abc import Iterator, Mapping

import numpy as np

from needlefish.format.granule_table import WHOLE_FILE, GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.index.point import PointBuilder
from needlefish.index.point_kinds import point_builder
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import ChunksetEntries, PointEntry
from needlefish.model.log import RunRef, TableState
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import Runtime
from needlefish.store import Store

# What waits for its run, with what finishing it takes: a task's memory has room for a few of these.
_MOST_BYTES = 256 * 1024 * 1024


def indexed_keys(state: TableState) -> dict[str, int]:
    """How many keys every index has, which new runs lay their slots out for."""
    return {
        index.name: sum(run.point.keys for run in state.runs_of(index.run_kind) if run.point is not None)
        for index in state.definition.point_indexes
    }


class PointRuns:
    """Puts the entries of one task, as one run for each index or as several where they are too many for one."""

    def __init__(
        self, definition: TableDefinition, keys_before: Mapping[str, int], store: Store, runtime: Runtime, total_keys: int = 0
    ) -> None:
        """`total_keys` is what an index is going to have, where that is known beforehand."""
        self._indexes = {index.name: index for index in definition.point_indexes}
        self._keys_before = dict(keys_before)
        self._total_keys = total_keys
        self._store = store
        self._runtime = runtime
        self._builders: dict[str, PointBuilder] = {}

    def add(self, entries: ChunksetEntries) -> Iterator[RunRef]:
        """Takes the entries of one chunkset; yields the runs that had to be put to make room."""
        key = file_key(entries.info.partition, entries.info.file_name)
        for entry in entries.point_entries:
            index = self._indexes[entry.index]
            builder = self._builders.get(index.name)
            if builder is not None and builder.size_bytes >= _MOST_BYTES:
                yield self._put(index.name)
                builder = None
            self._add(builder or self._builder(index), key, index, entry)

    def _builder(self, index: PointIndexDefinition) -> PointBuilder:
        found = self._builders[index.name] = point_builder(index, self._keys_before.get(index.name, 0), self._total_keys)
        return found

    def _add(self, builder: PointBuilder, key: str, index: PointIndexDefinition, entry: PointEntry) -> None:
        hashes = [np.frombuffer(data, np.uint64) for data in entry.hashes]
        if index.granularity == "file":
            builder.add(GranuleRef(key, WHOLE_FILE), np.concatenate(hashes) if hashes else np.empty(0, np.uint64))
            return
        for number, granule in enumerate(hashes):
            builder.add(GranuleRef(key, number), granule)

    def _put(self, name: str) -> RunRef:
        builder = self._builders.pop(name)
        self._keys_before[name] = self._keys_before.get(name, 0) + builder.keys
        return builder.finish(self._store, self._runtime)

    def finish(self) -> Iterator[RunRef]:
        """The runs of all that is left."""
        for name in list(self._builders):
            yield self._put(name)
