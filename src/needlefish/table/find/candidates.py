"""From a question to candidates: a point index where there is one, else the three levels partitions' files, ranges, filters.

The levels stream files through, so that memory does not follow the table.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from needlefish.format.column_stats_record import decode_column_stats
from needlefish.format.files_record import decode_files
from needlefish.format.metadata_key import hash64_part
from needlefish.format.run import KEY
from needlefish.index import newest
from needlefish.index.run_reader import RunReader
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.entries import ColumnStats
from needlefish.table.find.filters import pass_filters
from needlefish.table.find.points import indexed_candidates, uncovered
from needlefish.table.find.ranges import Extent, extent_of, stretch
from needlefish.table.find.receipt import LevelReceipt
from needlefish.table.find.search import Candidate, Search, charged
from needlefish.table.find.tolerant import TolerantReader
from needlefish.table.find.wanted import Wanted

_PART_LENGTH = 12


def candidates(search: Search) -> Iterator[Candidate]:
    """What the index admits and what it does not cover, or what is left after all three levels."""
    found = indexed_candidates(search)
    if found is None:
        yield from _by_levels(search, _files(search))
        return
    yield from found
    unknown = uncovered(search)
    if unknown is not None:
        yield from _by_levels(search, unknown)


def _by_levels(search: Search, files: Iterator[tuple[str, ChunksetInfo]]) -> Iterator[Candidate]:
    return pass_filters(search, _pass_ranges(search, files))


def _files(search: Search) -> Iterator[tuple[str, ChunksetInfo]]:
    """Level one: every chunkset of the partitions, with its key, in the order of keys."""
    level = search.receipt.level("files")
    for records in charged(search, level, _records(search, level, search.snapshot.runs("files"), "")):
        for key, info in zip(records[KEY].to_pylist(), decode_files(records), strict=True):
            # Two partitions may share a hash.
            if search.partitions is None or info.partition in search.partitions:
                level.files_in += 1
                level.files_out += 1
                yield key, info


def _records(search: Search, level: LevelReceipt, readers: Sequence[RunReader | TolerantReader], prefix: str) -> Iterator[pa.RecordBatch]:
    """The records of the wanted partitions; `prefix` is the part of the key in front of the partition's, if there is one."""
    store = search.snapshot.store
    if search.partitions is None and not prefix:
        for reader in readers:
            level.expect(reader.expected_of_scan())
        return newest.scan(store, readers)
    prefixes = [prefix] if search.partitions is None else [prefix + hash64_part(path) for path in search.partitions]
    for reader in readers:
        level.expect(reader.expected_of_prefixes(prefixes, _share(search)))
    return newest.with_prefixes(store, readers, prefixes)


def _share(search: Search) -> float:
    """Of all statistics a column has about its share. How many partitions there are nobody knows: each has a block at least."""
    return 0.0 if search.partitions is not None else 1 / len(search.snapshot.state.definition.schema.fields)


def _pass_ranges(search: Search, files: Iterable[tuple[str, ChunksetInfo]]) -> Iterator[Candidate]:
    """Level two: key ranges from the chunkset infos for whole keys, column statistics for anything else."""
    level = search.receipt.level("ranges")
    for info, stats in _with_statistics(search, level, files):
        wanted = search.wanted_in(info.partition)
        if wanted is None:
            continue
        level.files_in += 1
        level.unknown += not wanted.is_key and stats is None
        first, end = stretch(wanted.encoded, _extent(wanted, info, stats))
        if first < end:
            level.files_out += 1
            yield Candidate(info=info, wanted=wanted.part(first, end))


def _extent(wanted: Wanted, info: ChunksetInfo, stats: ColumnStats | None) -> Extent:
    # Values of several columns sort by the first one, whose range the statistics know.
    return Extent(info.first_key, info.last_key) if wanted.is_key else extent_of(stats)


def _with_statistics(
    search: Search, level: LevelReceipt, files: Iterable[tuple[str, ChunksetInfo]]
) -> Iterator[tuple[ChunksetInfo, ColumnStats | None]]:
    """Pairs files with their statistics. Both streams have the same order, so that neither is held in memory."""
    if search.wanted.is_key:
        yield from ((info, None) for _, info in files)
        return
    stats = _statistics(search, level)
    upcoming = next(stats, None)
    for key, info in files:
        while upcoming is not None and upcoming[0] < key:
            upcoming = next(stats, None)
        yield info, upcoming[1] if upcoming is not None and upcoming[0] == key else None


def _statistics(search: Search, level: LevelReceipt) -> Iterator[tuple[str, ColumnStats]]:
    readers = [TolerantReader(reader, search.complain) for reader in search.snapshot.runs("column_stats")]
    prefix = hash64_part(str(search.wanted.fields[0].id))
    for records in charged(search, level, _records(search, level, readers, prefix)):
        for row in records.to_pylist():
            yield row[KEY][_PART_LENGTH:], decode_column_stats(row)
