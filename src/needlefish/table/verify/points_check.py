"""A chunkset against the point indexes: what its granules hold must be found there, or finds would miss it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from needlefish.format.granule_table import WHOLE_FILE, GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.format.run import KEY
from needlefish.index import newest
from needlefish.index.point import PointReader
from needlefish.model.entries import PointEntry
from needlefish.model.point_index import PointIndexDefinition
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify.entries import FileEntries
from needlefish.table.verify.report import DAMAGE, Findings, said

# Hashes looked up of every granule, spread over its rows: all of them would read each run once for each file.
_SAMPLE = 64


@dataclass(kw_only=True)
class PointsCheck:
    """Shared by all files of one verification. Runs that cannot be read are a finding of their own, once."""

    snapshot: Snapshot
    _unreadable: set[str] = field(default_factory=set)
    _uncovered: dict[str, set[str]] = field(default_factory=dict)

    def check(self, entries: FileEntries, points: Sequence[PointEntry], found: Findings) -> None:
        indexes = {index.name: index for index in self.snapshot.state.definition.point_indexes}
        key = file_key(entries.info.partition, entries.info.file_name)
        for point in points:
            index = indexes[point.index]
            if key in self._unknown(index):
                found.note(entries.info.path, f"not covered: index {index.name}", f"rebuild 'index/{index.name}'")
            elif index.run_kind not in self._unreadable:
                self._check_index(index, key, point, entries, found)

    def _unknown(self, index: PointIndexDefinition) -> set[str]:
        if index.name not in self._uncovered:
            readers = self.snapshot.runs(index.uncovered_kind)
            found = newest.scan(self.snapshot.store, readers)
            self._uncovered[index.name] = {key for records in found for key in records[KEY].to_pylist()}
        return self._uncovered[index.name]

    def _check_index(self, index: PointIndexDefinition, key: str, point: PointEntry, entries: FileEntries, found: Findings) -> None:
        asked = _asked(key, index, point)
        if not asked:
            return
        hashes, granules = np.concatenate(list(asked.values())), np.repeat(np.arange(len(asked)), [len(some) for some in asked.values()])
        missing = np.ones(len(hashes), np.bool_)
        try:
            for reader in self.snapshot.point_runs(index):
                self._cross_off(reader, hashes, granules, list(asked), missing)
        except DAMAGE as error:
            # The run itself is reported where runs are checked.
            self._unreadable.add(index.run_kind)
            found.note(entries.info.path, f"index {index.name} was not compared: {said(error, '')}", f"rebuild 'index/{index.name}'")
            return
        if missing.any():
            at = list(asked)[int(granules[np.flatnonzero(missing)[0]])]
            where = "the file" if at.granule == WHOLE_FILE else f"granule {at.granule}"
            found.problem(entries.info.path, f"index {index.name} misses values of {where}", f"rebuild 'index/{index.name}'")

    def _cross_off(
        self,
        reader: PointReader,
        hashes: NDArray[np.uint64],
        granules: NDArray[np.int64],
        refs: Sequence[GranuleRef],
        missing: NDArray[np.bool_],
    ) -> None:
        hits = reader.probe(self.snapshot.store, hashes)
        ordinals, numbers = np.unique(hits.ordinals, return_inverse=True)
        named = reader.granules(self.snapshot.store, ordinals.tolist())
        places = np.array([refs.index(ref) if ref in refs else -1 for ref in named], np.int64)
        right = places[numbers] == granules[hits.places] if len(hits) else np.zeros(0, np.bool_)
        missing[hits.places[right]] = False


def _asked(key: str, index: PointIndexDefinition, point: PointEntry) -> Mapping[GranuleRef, NDArray[np.uint64]]:
    """A sample of every granule's hashes."""
    hashes = [np.frombuffer(data, np.uint64) for data in point.hashes]
    if index.granularity == "file":
        hashes = [np.concatenate(hashes)] if hashes else []
    numbers = [WHOLE_FILE] if index.granularity == "file" else range(len(hashes))
    return {GranuleRef(key, number): _spread(found) for number, found in zip(numbers, hashes, strict=False) if len(found)}


def _spread(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return hashes[np.linspace(0, len(hashes) - 1, min(len(hashes), _SAMPLE)).astype(np.int64)]
