"""The second task: parcels in, tags out. Reads the key columns of admitted granules and compares exactly."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pyarrow as pa

from needlefish.index.asking import ask_each
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.table.find import ROW, Candidate, match_rows, number_rows, pairs_of, wanted_arrays
from needlefish.table.skips import Hidden, with_hidden
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
            hidden = hidden_by_path(snapshot, [parcel.info for parcel in some if parcel.info is not None])
            found = ask_each(snapshot.store, partial(self._result, snapshot, hidden), some)
            yield from pa.concat_tables(found).combine_chunks().to_batches()

    def _result(self, snapshot: Snapshot, hidden: Mapping[str, Hidden | None], parcel: Parcel) -> pa.Table:
        schema = self.plan.result_schema
        return unpack(snapshot, parcel, hidden).rename_columns(schema.names).cast(schema)


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


def hidden_by_path(snapshot: Snapshot, infos: Sequence[ChunksetInfo]) -> dict[str, Hidden | None]:
    """The hidden rows of some files, looked up together."""
    return {info.path: hidden for info, hidden in with_hidden(snapshot, infos)}


def unpack(snapshot: Snapshot, parcel: Parcel, hidden: Mapping[str, Hidden | None]) -> pa.Table:
    """What was found already, or what is found in the file now."""
    if parcel.info is None:
        return parcel.rows
    keys = sorted_by_key(parcel.rows.combine_chunks(), snapshot.state.definition)
    return locate(snapshot, _candidate(parcel.info, keys, snapshot.state.definition), keys, hidden[parcel.info.path])


def _candidate(info: ChunksetInfo, keys: pa.Table, definition: TableDefinition) -> Candidate:
    return Candidate(info=info, wanted=wanted_arrays(definition, [keys[field.name].combine_chunks() for field in definition.key_fields]))


def locate(snapshot: Snapshot, candidate: Candidate, keys: pa.Table, hidden: Hidden | None) -> pa.Table:
    """The keys that are in the candidate, with their tags; `keys` are in the order of what the candidate wants.

    A hidden row is not where a key lives, and a file that has no other is not opened.
    """
    fields = snapshot.state.definition.key_fields
    rows = match_rows(snapshot, candidate, fields, hidden).rows
    at, places = pairs_of(*number_rows(candidate.wanted.arrays, [rows[field.name] for field in fields]))
    info = candidate.info
    tags = [
        pa.repeat(pa.scalar(info.id, pa.string()), len(at)),
        rows[ROW].combine_chunks().take(pa.array(places)),
        pa.repeat(pa.scalar(info.partition, pa.string()), len(at)),
    ]
    found = keys.take(pa.array(at))
    return pa.Table.from_arrays([*found.columns, *tags], names=[*found.column_names, *TAG_COLUMNS.names])
