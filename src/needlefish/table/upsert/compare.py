"""The second and third task: keys to the files that may hold them, and there to the rows that they replace."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap

from needlefish.format.metadata_key import file_key
from needlefish.format.skips_record import Skips, skips_in
from needlefish.index.asking import ask_each
from needlefish.model.chunkset import ChunksetInfo, PartitionPath
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.store import RetriedStore, open_store
from needlefish.table.find import ROW, Candidate, match_rows, number_rows, pairs_of, wanted_arrays
from needlefish.table.skips import Hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag.keys import sorted_by_key
from needlefish.table.tag.locate import hidden_by_path, merged
from needlefish.table.tag.parcel import Parcel, parcel_batches, parcels_of
from needlefish.table.tag.probe import MOST_SENT, admitted
from needlefish.table.upsert.marks import Mark, Marks, mark_batch, marks_of
from needlefish.table.upsert.plan import DELETES, ORDER, OWN_FILE, OWN_PARTITION, OWN_ROW, ComparePlan
from needlefish.table.upsert.sources import Source, chunks_of_sources, sources_of

# Files read at once.
_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeKeysTask:
    """A callable over batches of sources: hands out parcels, the keys of a change for every file that may hold them."""

    plan: ComparePlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.plan.store)
        snapshot = self.plan.within(store)
        sources = (source for rows in batches for source in sources_of(rows))
        yield from parcel_batches(_parcels(snapshot, sources, self.plan.order_field))
        # What all of it took rides along as marks that hide nothing.
        yield from parcel_batches([_of_marks("#requests", (), store.meter.snapshot().requests)])


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkTask:
    """A callable over batches of parcels, those of one file in a row: reads keys, hands out marks."""

    plan: ComparePlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.plan.store)
        found = _marked(self.plan.within(store), parcels_of(batches), self.plan.order_field)
        yield mark_batch(found.marks, found.requests + store.meter.snapshot().requests)


def compare_here(store: RetriedStore, sources: Iterable[Source], plan: ComparePlan) -> Marks:
    """The same in this process, for few keys; whoever owns the store is charged anyway."""
    snapshot = plan.within(store)
    parcels = _parcels(snapshot, sources, plan.order_field)
    return _marked(snapshot, sorted(parcels, key=lambda found: found.file), plan.order_field)


def _parcels(snapshot: Snapshot, sources: Iterable[Source], order: Field | None) -> Iterator[Parcel]:
    return sent_parcels(snapshot, sources, order, lambda parcel: [_done(snapshot, parcel, order)])


def sent_parcels(
    snapshot: Snapshot, sources: Iterable[Source], order: Field | None, done: Callable[[Parcel], Iterable[Parcel]]
) -> Iterator[Parcel]:
    """The files that may hold keys of the sources, with those keys.

    Files whose filters cannot be read take every key in their range. Beyond a few times the keys, nothing more is sent:
    the file is read here and now, and what `done` finds there takes the parcel's place.
    """
    for chunk in chunks_of_sources(snapshot.store, snapshot.state.definition, sources, order):
        sent = 0
        for candidate in admitted(snapshot, chunk):
            keys = chunk.rows.take(pa.array(candidate.wanted.places))
            parcel = Parcel(file=candidate.info.path, info=candidate.info, rows=keys)
            sent += keys.num_rows
            yield from [parcel] if sent <= MOST_SENT * chunk.rows.num_rows else done(parcel)


def _done(snapshot: Snapshot, parcel: Parcel, order: Field | None) -> Parcel:
    assert parcel.info is not None, "a parcel of keys names its file"
    marks = _marks(snapshot, parcel, hidden_by_path(snapshot, [parcel.info]), order)
    # Not the file's own name: keys that another source sends there must not be taken for more of the same.
    return _of_marks(f"{parcel.file}#marks", marks, 0)


def _of_marks(name: str, marks: Sequence[Mark], requests: int) -> Parcel:
    return Parcel(file=name, info=None, rows=pa.Table.from_batches([mark_batch(marks, requests)]))


def _marked(snapshot: Snapshot, parcels: Iterable[Parcel], order: Field | None) -> Marks:
    works = merged(parcels)
    found = Marks()
    while some := list(islice(works, _AT_ONCE)):
        hidden = hidden_by_path(snapshot, [parcel.info for parcel in some if parcel.info is not None])
        for marks in ask_each(snapshot.store, partial(_unpacked, snapshot, hidden, order), some):
            found = found.plus(marks)
    return found


def _unpacked(snapshot: Snapshot, hidden: dict[str, Hidden | None], order: Field | None, parcel: Parcel) -> Marks:
    if parcel.info is None:
        return marks_of(parcel.rows.to_batches())
    return Marks(marks=tuple(_marks(snapshot, parcel, hidden, order)))


def _marks(snapshot: Snapshot, parcel: Parcel, hidden: dict[str, Hidden | None], order: Field | None) -> list[Mark]:
    info, definition = parcel.info, snapshot.state.definition
    assert info is not None, "a parcel of keys names its file"
    keys = sorted_by_key(parcel.rows.combine_chunks(), definition)
    columns = list(dict.fromkeys([*definition.key_fields, *([order] if order is not None else [])]))
    rows = match_rows(snapshot, candidate_of(info, keys, definition), columns, hidden[info.path]).rows
    at, places = pairs_of(*numbered(keys, rows, definition))
    if not len(at):
        return []
    positions = rows[ROW].combine_chunks().to_numpy()[places]
    late = np.zeros(len(at), np.bool_) if order is None else is_late(keys[ORDER], rows[order.name], at, places)
    gone = keys[DELETES].combine_chunks().to_numpy(zero_copy_only=False)[at]
    marks = [_hidden(info, positions[chosen], deleted=deleted) for deleted, chosen in ((False, ~late & ~gone), (True, ~late & gone))]
    return [*(mark for mark in marks if mark.skips.rows), *_outranked(info, keys, at[late], positions[late])]


def candidate_of(info: ChunksetInfo, keys: pa.Table, definition: TableDefinition) -> Candidate:
    return Candidate(info=info, wanted=wanted_arrays(definition, [keys[field.name].combine_chunks() for field in definition.key_fields]))


def numbered(keys: pa.Table, rows: pa.Table, definition: TableDefinition) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    names = [field.name for field in definition.key_fields]
    return number_rows([keys[name] for name in names], [rows[name] for name in names])


def is_late(incoming: pa.ChunkedArray, stored: pa.ChunkedArray, at: NDArray[np.intp], places: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether the stored row is the newer one, in the order in which rows of one batch are sorted.

    No value is older than any value, NaN is newer than any number; of equal ones the one that comes now wins.
    """
    one, other = incoming.take(pa.array(at)), stored.take(pa.array(places))
    above = pc.greater(other, one)
    if pa.types.is_floating(one.type):
        above = pc.or_(above, pc.and_(pc.is_nan(other), pc.invert(pc.is_nan(one))))
    unknown = pc.and_(pc.is_null(one), pc.is_valid(other))
    return np.asarray(pc.or_(pc.fill_null(above, False), unknown).to_numpy(), np.bool_)


def _hidden(info: ChunksetInfo, positions: NDArray[np.int64], *, deleted: bool) -> Mark:
    return Mark(skips=skips_in(info, positions.tolist()), deleted=deleted)


def _outranked(info: ChunksetInfo, keys: pa.Table, at: NDArray[np.intp], by: NDArray[np.int64]) -> list[Mark]:
    """The new rows that lose, and against which; a delete that loses has no row of its own to hide."""
    if not len(at):
        return []
    lost = keys.take(pa.array(at)).append_column(ROW, pa.array(by))
    own = lost.filter(pc.is_valid(lost[OWN_ROW])).sort_by(OWN_ROW)
    # In one thread the rows of a group stay in their order.
    grouped = own.group_by([OWN_PARTITION, OWN_FILE], use_threads=False).aggregate([(OWN_ROW, "list"), (ROW, "list")])
    return [
        Mark(
            skips=Skips(partition=PartitionPath(row[OWN_PARTITION]), file_name=row[OWN_FILE], rows=BitMap(row[f"{OWN_ROW}_list"])),
            late=True,
            by=file_key(info.partition, info.file_name),
            by_rows=tuple(row[f"{ROW}_list"]),
        )
        for row in grouped.to_pylist()
    ]
