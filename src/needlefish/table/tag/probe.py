"""The first task: keys in, parcels out. Asks the levels which files may hold the keys, in memory that follows neither.

What it costs: each chunk of keys reads the filters of every file whose range it meets, and checks its keys against each
in about two nanoseconds. A million keys against a thousand files are two chunks, 200 MB of filters and two seconds.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from needlefish.store import Meter
from needlefish.table.find import Candidate, FindReceipt, Search, candidates
from needlefish.table.partition.prune import MOST_PINNED
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag.keys import KeyChunk, key_chunks
from needlefish.table.tag.locate import hidden_by_path, locate
from needlefish.table.tag.parcel import Parcel, parcel_batches
from needlefish.table.tag.plan import TagPlan

# Sending a key costs about a microsecond; so many cost as much as reading the file here.
HOT_KEYS = 10_000
# Files whose filters cannot be read take every key in their range. What is sent stays below this many times the keys.
MOST_SENT = 4
# Found rows travel in parcels of this many.
_PARCEL_ROWS = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTask:
    """A callable over batches of the columns of `tag_fields`."""

    plan: TagPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        snapshot = self.plan.open()
        for chunk in key_chunks(batches, self.plan.state.definition):
            yield from parcel_batches(probe(snapshot, chunk))


def probe(snapshot: Snapshot, chunk: KeyChunk) -> Iterator[Parcel]:
    """The files that may hold keys of the chunk, with those keys; of hot files, what was found in them.

    A file that takes many keys is read here and now: its keys are spread over the tasks already, and reading a file
    once for each of those is cheaper than moving the keys.
    """
    sent = 0
    for candidate in admitted(snapshot, chunk):
        keys = chunk.rows.take(pa.array(candidate.wanted.places))
        if keys.num_rows < HOT_KEYS and sent + keys.num_rows <= MOST_SENT * chunk.rows.num_rows:
            sent += keys.num_rows
            yield Parcel(file=candidate.info.path, info=candidate.info, rows=keys)
        else:
            yield from _located(snapshot, candidate, keys)


def admitted(snapshot: Snapshot, chunk: KeyChunk) -> Iterator[Candidate]:
    """The files that may hold keys of the chunk; what they want is counted from the chunk's rows."""
    return candidates(_search(snapshot, chunk))


def _located(snapshot: Snapshot, candidate: Candidate, keys: pa.Table) -> Iterator[Parcel]:
    found = locate(snapshot, candidate, keys, hidden_by_path(snapshot, [candidate.info])[candidate.info.path])
    for first in range(0, found.num_rows, _PARCEL_ROWS):
        yield Parcel(file=f"{candidate.info.path}#{first}", info=None, rows=found.slice(first, _PARCEL_ROWS))


def _search(snapshot: Snapshot, chunk: KeyChunk) -> Search:
    partitions = chunk.by_partition
    pinned = partitions if partitions is not None and len(partitions) <= MOST_PINNED else None
    receipt = FindReceipt(
        version=snapshot.state.version,
        values=len(chunk.wanted),
        index="metadata: files, ranges, filters",
        partitions=None if pinned is None else len(pinned),
    )
    # Nobody sees what a task is charged.
    return Search(snapshot=snapshot, wanted=chunk.wanted, partitions=pinned, receipt=receipt, meter=Meter(), by_partition=partitions)
