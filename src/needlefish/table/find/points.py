"""The point index: hashes to granules to chunksets, whatever the number of files.

It may only rule out what it covers. Where it cannot be read it rules nothing out, and the three levels take over.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from needlefish.errors import CorruptError, NotFoundError, UnavailableError, UnsupportedError
from needlefish.format.granule_table import WHOLE_FILE, GranuleRef
from needlefish.format.run import KEY, path_of
from needlefish.index import newest
from needlefish.index.asking import ask_each
from needlefish.index.point import PointReader
from needlefish.index.run_reader import RunReader
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import in_parallel
from needlefish.table.find.asked import Asked, asked_hashes, best_index
from needlefish.table.find.infos import infos_of
from needlefish.table.find.search import Candidate, Search, charged
from needlefish.table.find.wanted import Wanted

# Probing for so many is less work than handing it to threads.
_FEW_HASHES = 8


@dataclass(slots=True)
class _Place:
    """What the index says of one chunkset: which values may be there, and in which granules; None means in any."""

    values: list[NDArray[np.int64]] = field(default_factory=list)
    granules: set[int] | None = field(default_factory=set)

    def add(self, values: NDArray[np.int64], granule: int) -> None:
        self.values.append(values)
        if granule == WHOLE_FILE:
            self.granules = None
        elif self.granules is not None:
            self.granules.add(granule)


def indexed_candidates(search: Search) -> list[Candidate] | None:
    """The chunksets that the best index admits; None if there is no index, or if it cannot answer."""
    definition = search.snapshot.state.definition
    index = best_index(definition, search.wanted)
    asked = None if index is None else asked_hashes(definition, index, search.wanted)
    if index is None or asked is None:
        return None
    places = _probed(search, index, asked)
    if places is None:
        return None
    search.receipt.index = _words(index, len(search.snapshot.point_runs(index)))
    return [found for key, info in infos_of(search, list(places)) if (found := _candidate(search, info, places[key])) is not None]


def _words(index: PointIndexDefinition, runs: int) -> str:
    return f"{index.kind} {index.name!r}, {runs} run{'' if runs == 1 else 's'}"


def _probed(search: Search, index: PointIndexDefinition, asked: Asked) -> dict[str, _Place] | None:
    """By chunkset; None where a run cannot be read."""
    level = search.receipt.level("index")
    readers = search.snapshot.point_runs(index)
    for reader in readers:
        level.expect(reader.expected_of_probe(len(asked.hashes)))
    before = search.meter.snapshot()
    start = partial(ask_each, search.snapshot.store) if len(asked.hashes) <= _FEW_HASHES else in_parallel
    found = start(lambda reader: _read(search, reader, asked), readers)
    level.usage = level.usage + (search.meter.snapshot() - before)
    places: dict[str, _Place] = {}
    for part in found:
        if part is None:
            return None
        for ref, values in part:
            places.setdefault(ref.key, _Place()).add(values, ref.granule)
    level.files_in = search.snapshot.state.totals.files
    level.files_out = len(places)
    return places


def _read(search: Search, reader: PointReader, asked: Asked) -> list[tuple[GranuleRef, NDArray[np.int64]]] | None:
    """Every granule that one run admits, with the values that may be there."""
    store = search.snapshot.store
    try:
        hits = reader.probe(store, asked.hashes)
        if not len(hits):
            return []
        order = np.argsort(hits.ordinals, kind="stable")
        ordinals, starts = np.unique(hits.ordinals[order], return_index=True)
        refs = reader.granules(store, ordinals.tolist())
        return list(zip(refs, np.split(asked.places[hits.places[order]], starts[1:]), strict=True))
    except (CorruptError, NotFoundError, UnavailableError, UnsupportedError) as error:
        search.complain(f"{path_of(reader.ref)}: {error}")
        return None


def _candidate(search: Search, info: ChunksetInfo, place: _Place) -> Candidate | None:
    if search.partitions is not None and info.partition not in search.partitions:
        return None
    values = np.unique(np.concatenate(place.values))
    wanted = _wanted(search, info, values)
    if not len(wanted):
        return None
    return Candidate(info=info, wanted=wanted, granules=None if place.granules is None else tuple(sorted(place.granules)))


def _wanted(search: Search, info: ChunksetInfo, values: NDArray[np.int64]) -> Wanted:
    """Of these values the ones that are looked for in the chunkset's partition."""
    part = search.wanted_in(info.partition)
    if part is None:
        values = values[:0]
    elif part is not search.wanted:
        places = part.places
        values = values[(values >= places[0]) & (values <= places[-1])] if len(places) else values[:0]
    return search.wanted if len(values) == len(search.wanted) else search.wanted.chosen(values)


def uncovered(search: Search) -> Iterator[tuple[str, ChunksetInfo]] | None:
    """Chunksets that the index does not know, since they were committed while it was being built; None if it knows all."""
    index = best_index(search.snapshot.state.definition, search.wanted)
    readers = () if index is None else search.snapshot.runs(index.uncovered_kind)
    return _listed(search, readers) if readers else None


def _listed(search: Search, readers: Sequence[RunReader]) -> Iterator[tuple[str, ChunksetInfo]]:
    """Those of them that are still part of the table."""
    level = search.receipt.level("index")
    for records in charged(search, level, newest.scan(search.snapshot.store, readers)):
        for key, info in infos_of(search, records[KEY].to_pylist()):
            level.unknown += 1
            yield key, info
