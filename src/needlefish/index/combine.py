"""Records that add up instead of replacing each other: skips, whose bitmaps merge by OR."""

from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import TypeAlias

import pyarrow as pa
from pyroaring import BitMap

from needlefish.format.run import IS_DELETED, KEY
from needlefish.format.skips_record import SKIPS, decode_rows

Record: TypeAlias = dict[str, object]
# One record of several with the same key, newest first, none of them a tombstone.
Combine: TypeAlias = Callable[[list[Record]], Record]


def or_bitmaps(column: str) -> Combine:
    """The newest record, with the union of all Roaring bitmaps in `column`."""

    def combine(records: list[Record]) -> Record:
        united = BitMap.union(*(decode_rows(record[column], f"key {record[KEY]}") for record in records))
        united.run_optimize()
        return {**records[0], column: united.serialize()}

    return combine


# How records of the kind `skips` become one, in reads of several runs and in merges.
UNITE_SKIPS = or_bitmaps(SKIPS)


def combined(ordered: pa.Table, first: pa.Array, combine: Combine) -> pa.Table:
    """One record for each key of a table sorted by key; `first` is true where a key begins.

    What is older than a tombstone is gone, so that only the records before it count; a newest tombstone stays. A key that
    was deleted must not come back while older runs remain outside a merge, and none does: chunksets never get an old id.
    """
    rows = ordered.to_pylist()
    starts = [place for place, begins in enumerate(first.to_pylist()) if begins]
    groups = (rows[start:end] for start, end in zip(starts, [*starts[1:], len(rows)], strict=True))
    return pa.Table.from_pylist(list(_each(groups, combine)), schema=ordered.schema)


def _each(groups: Iterator[list[Record]], combine: Combine) -> Iterator[Record]:
    for group in groups:
        alive = list(takewhile(lambda record: not record[IS_DELETED], group))
        yield combine(alive) if len(alive) > 1 else group[0]
