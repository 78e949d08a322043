"""The point index: hashes to granules to chunksets, whatever the number of files.

It may only rule out what it covers. Where it cannot be read it rules nothing out, and the three levels take over.
"""

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
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import in_parallel
from needlefish.table.find.asked import Asked, asked_hashes, best_index
from needlefish.table.find.infos import infos_of
from needlefish.table.find.search import Candidate, Search, charged
from needlefish.table.find.wanted import Wanted

# Probing for so many is less work than handing it to threads.
_FEW_HASHES = 8


# What must not end a find: whatever cannot be read rules nothing out.
_UNREADABLE = (CorruptError, NotFoundError, UnavailableError, UnsupportedError)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexed:
    """What an index says: the chunksets that it admits, and those that it does not know and so cannot rule out."""

    admitted: list[Candidate]
    unknown: list[tuple[str, ChunksetInfo]]


def ask_index(search: Search) -> Indexed | None:
    """The best index's answer; None if there is no index, or if it cannot be read."""
    definition = search.snapshot.state.definition
    index = best_index(definition, search.wanted)
    asked = None if index is None else asked_hashes(definition, index, search.wanted)
    if index is None or asked is None:
        return None
    unknown, places = _uncovered(search, index), _probed(search, index, asked)
    if unknown is None or places is None:
        return None
    search.receipt.index = _words(index, len(search.snapshot.point_runs(index)))
    infos = infos_of(search, list(places))
    admitted = [found for key, info in infos if (found := _candidate(search, info, places[key])) is not None]
    search.receipt.level("index").unknown = len(unknown)
    return Indexed(admitted=admitted, unknown=list(infos_of(search, unknown)))


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
        if len(asked.hashes) == 1:
            return [(ref, asked.places) for ref in reader.granules(store, hits.ordinals.tolist())]
        order = np.argsort(hits.ordinals, kind="stable")
        ordinals, starts = np.unique(hits.ordinals[order], return_index=True)
        refs = reader.granules(store, ordinals.tolist())
        return list(zip(refs, np.split(asked.places[hits.places[order]], starts[1:]), strict=True))
    except _UNREADABLE as error:
        path = path_of(reader.ref)
        search.complain(f"{path}: {str(error).removeprefix(f'{path}: ')}")
        return None


def _candidate(search: Search, info: ChunksetInfo, place: _Place) -> Candidate | None:
    if search.partitions is not None and info.partition not in search.partitions:
        return None
    # Of a single value there is nothing to choose.
    single = len(search.wanted) == 1 and search.by_partition is None
    wanted = search.wanted if single else _wanted(search, info, np.unique(np.concatenate(place.values)))
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


def _uncovered(search: Search, index: PointIndexDefinition) -> list[str] | None:
    """Chunksets that the index does not know, since they were committed while it was being built; None if nobody can tell."""
    readers = search.snapshot.runs(index.uncovered_kind)
    try:
        found = charged(search, search.receipt.level("index"), newest.scan(search.snapshot.store, readers)) if readers else ()
        return [key for records in found for key in records[KEY].to_pylist()]
    except _UNREADABLE as error:
        search.complain(str(error))
        return None
