"""Several runs seen as one: in key order, one record for each key, tombstones gone.

The newest record wins; where `combine` is given, it makes one record of all that are newer than a tombstone.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.format.run import IS_DELETED, KEY
from needlefish.index.asking import ask_each
from needlefish.index.combine import Combine, combined
from needlefish.index.cursor import Cursor
from needlefish.runtime import in_parallel
from needlefish.store import Store

# Decoding what so many keys need is less work than handing it to threads.
_FEW_KEYS = 8

Stream: TypeAlias = Iterator[pa.RecordBatch]
# Takes the first batch of every stream, if it has one.
Start: TypeAlias = Callable[[Callable[[Stream], pa.RecordBatch | None], Sequence[Stream]], list[pa.RecordBatch | None]]


class Reader(Protocol):
    """Anything that reads one run."""

    def scan(self, store: Store) -> Iterator[pa.RecordBatch]: ...

    def with_prefixes(self, store: Store, prefixes: list[str]) -> Iterator[pa.RecordBatch]: ...

    def get(self, store: Store, keys: list[str]) -> Iterator[pa.RecordBatch]: ...


def scan(store: Store, readers: Sequence[Reader], combine: Combine | None = None) -> Iterator[pa.RecordBatch]:
    """Every live record; memory holds a few blocks of each run. `readers` are newest first."""
    yield from map(live, merged([reader.scan(store) for reader in readers], combine))


def with_prefixes(
    store: Store, readers: Sequence[Reader], prefixes: Iterable[str], combine: Combine | None = None
) -> Iterator[pa.RecordBatch]:
    """The live records whose keys begin with one of `prefixes`; the runs are read in parallel."""
    wanted = list(prefixes)
    yield from map(live, merged([reader.with_prefixes(store, wanted) for reader in readers], combine))


def get(store: Store, readers: Sequence[Reader], keys: Iterable[str], combine: Combine | None = None) -> Iterator[pa.RecordBatch]:
    """The live records with these keys."""
    wanted = list(keys)
    streams = [reader.get(store, wanted) for reader in readers]
    yield from map(live, merged(streams, combine, partial(ask_each, store) if len(wanted) <= _FEW_KEYS else in_parallel))


def live(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without tombstones."""
    gone = batch[IS_DELETED]
    return batch.filter(pc.invert(gone)) if gone.true_count else batch


def merged(streams: Sequence[Stream], combine: Combine | None = None, start: Start = in_parallel) -> Stream:
    """One record for each key, tombstones included. `streams` are sorted by key and come newest first.

    Up to the least of the last keys at hand no stream can bring anything more, so that such a stretch of all streams
    is merged at once.
    """
    cursors = [cursor for cursor in map(Cursor, _primed(streams, start)) if cursor.batch is not None]
    while len(cursors) > 1:
        bound = min(cursor.last_key for cursor in cursors)
        parts = [part for part in (cursor.take(bound) for cursor in cursors) if part.num_rows]
        yield from _merge(parts, combine)
        cursors = [cursor for cursor in cursors if cursor.batch is not None]
    if cursors:
        # The common case after a merge: nothing to compare.
        yield from cursors[0].rest()


def _primed(streams: Sequence[Stream], start: Start) -> list[Stream]:
    """Starts all streams at once, so that many small runs cost the time of one."""
    firsts = start(lambda stream: next(stream, None), streams)
    return [chain([first], rest) for first, rest in zip(firsts, streams, strict=True) if first is not None]


def _merge(parts: list[pa.RecordBatch], combine: Combine | None) -> Iterator[pa.RecordBatch]:
    """One record for each key of the parts, which come newest first."""
    if len(parts) == 1:
        yield parts[0]
        return
    # A run of an older writer may lack columns; its records have nulls there.
    together = pa.concat_tables([pa.Table.from_batches([part]) for part in parts], promote_options="default")
    # Arrow's sort is stable: of equal keys the newest stays first.
    ordered = together.take(pc.sort_indices(together, sort_keys=[(KEY, "ascending")])).combine_chunks()
    keys = ordered[KEY].combine_chunks()
    repeats = pc.equal(keys.slice(1), keys.slice(0, len(keys) - 1))
    first = pa.concat_arrays([pa.array([True]), pc.invert(repeats)])
    if combine is not None and pc.any(repeats).as_py():
        ordered = combined(ordered, first, combine)
        yield from ordered.to_batches()
        return
    yield from ordered.filter(first).to_batches()
