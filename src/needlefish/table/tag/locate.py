"""The second task: parcels in, tags out. Reads the key columns of admitted granules and compares exactly."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.runtime import in_parallel
from needlefish.table.find import ROW, Candidate, match_rows, number_rows, pairs_of, wanted_arrays
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag.keys import MOST_ROWS, sorted_by_key
from needlefish.table.tag.parcel import Parcel, parcels_of
from needlefish.table.tag.plan import TAG_COLUMNS, TagPlan

# Files read at once.
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LocateTask:
    """A callable over batches of parcels, those of one file in a row."""

    plan: TagPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        snapshot = self.plan.open()
        works = merged(parcels_of(batches))
        while some := list(islice(works, _AT_ONCE)):
            found = in_parallel(lambda parcel: self._result(unpack(snapshot, parcel)), some)
            yield from pa.concat_tables(found).combine_chunks().to_batches()

    def _result(self, found: pa.Table) -> pa.Table:
        schema = self.plan.result_schema
        return found.rename_columns(schema.names).cast(schema)


def merged(parcels: Iterable[Parcel]) -> Iterator[Parcel]:
    """Neighbours of the same file as one, so that a file is read once; bounded, should its keys be very many."""
    last: Parcel | None = None
    for parcel in parcels:
        if last and last.info and last.file == parcel.file and last.rows.num_rows + parcel.rows.num_rows <= MOST_ROWS:
            last = Parcel(file=last.file, info=last.info, rows=pa.concat_tables([last.rows, parcel.rows]))
            continue
        if last:
            yield last
        last = parcel
    if last:
        yield last


def unpack(snapshot: Snapshot, parcel: Parcel) -> pa.Table:
    """What was found already, or what is found in the file now."""
    if parcel.info is None:
        return parcel.rows
    keys = sorted_by_key(parcel.rows.combine_chunks(), snapshot.state.definition)
    return locate(snapshot, _candidate(parcel.info, keys, snapshot.state.definition), keys)


def _candidate(info: ChunksetInfo, keys: pa.Table, definition: TableDefinition) -> Candidate:
    return Candidate(info=info, wanted=wanted_arrays(definition, [keys[field.name].combine_chunks() for field in definition.key_fields]))


def locate(snapshot: Snapshot, candidate: Candidate, keys: pa.Table) -> pa.Table:
    """The keys that are in the candidate, with their tags; `keys` are in the order of what the candidate wants."""
    fields = snapshot.state.definition.key_fields
    rows = match_rows(snapshot, candidate, fields).rows
    at, places = pairs_of(*number_rows(candidate.wanted.arrays, [rows[field.name] for field in fields]))
    info = candidate.info
    tags = [
        pa.repeat(pa.scalar(info.id, pa.string()), len(at)),
        rows[ROW].combine_chunks().take(pa.array(places)),
        pa.repeat(pa.scalar(info.partition, pa.string()), len(at)),
    ]
    found = keys.take(pa.array(at))
    return pa.Table.from_arrays([*found.columns, *tags], names=[*found.column_names, *TAG_COLUMNS.names])
