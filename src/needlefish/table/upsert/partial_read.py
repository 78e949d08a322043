"""Partial rows, the second and third task: keys to the files that may hold them, and from there the columns that are missing.

What travels is keys in the one direction and the columns that the new rows lack in the other; what they have stays put.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from needlefish.index.asking import ask_each
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import RESERVED, Field
from needlefish.store import RetriedStore, open_store
from needlefish.table.find import ROW, match_rows, pairs_of
from needlefish.table.skips import Hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.tag.keys import sorted_by_key
from needlefish.table.tag.locate import hidden_by_path, merged
from needlefish.table.tag.parcel import Parcel, parcel_batches, parcels_of
from needlefish.table.upsert.compare import candidate_of, is_late, numbered, sent_parcels
from needlefish.table.upsert.plan import ORDER, OWN_FILE, OWN_ROW, ComparePlan
from needlefish.table.upsert.sources import Source, sources_of

# Files read at once.
_AT_ONCE = 16

# Where a stored row lies, and whether it outranks the new one.
OLD_PARTITION = f"{RESERVED}_old_partition"
OLD_FILE = f"{RESERVED}_old_file"
OLD_ROW = f"{RESERVED}_old_row"
LATE = f"{RESERVED}_late"
# A parcel that names no file says how many requests a task made.
ACCOUNT = ""
REQUESTS = f"{RESERVED}_requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPlan:
    """The version to complete rows from; `present` are the ids of the columns that they have."""

    compare: ComparePlan
    present: tuple[int, ...]
    # The attempt that all ids begin with.
    owner: str = ""

    @property
    def definition(self) -> TableDefinition:
        return self.compare.state.definition

    @property
    def missing(self) -> tuple[Field, ...]:
        return tuple(field for field in self.definition.schema.fields if field.id not in self.present)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocateRowsTask:
    """A callable over batches of sources: hands out parcels, the keys of staged rows for every file that may hold them."""

    plan: PartialPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.plan.compare.store)
        sources = (source for rows in batches for source in sources_of(rows))
        yield from parcel_batches(self.within(store, sources))
        yield from parcel_batches([_account(store)])

    def within(self, store: RetriedStore, sources: Iterable[Source]) -> Iterator[Parcel]:
        """The same in a store that is open already."""
        snapshot, order = self.plan.compare.within(store), self.plan.compare.order_field
        if snapshot.state.runs_of("files"):
            yield from sent_parcels(snapshot, sources, order, partial(_read_now, snapshot, self.plan))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOldTask:
    """A callable over batches of parcels, those of one stored file in a row: hands out parcels for the files of staged rows."""

    plan: PartialPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.plan.compare.store)
        yield from parcel_batches(self.within(store, parcels_of(batches)))
        yield from parcel_batches([_account(store)])

    def within(self, store: RetriedStore, parcels: Iterable[Parcel]) -> Iterator[Parcel]:
        """The same in a store that is open already."""
        snapshot = self.plan.compare.within(store)
        works = merged(parcels)
        while some := list(islice(works, _AT_ONCE)):
            hidden = hidden_by_path(snapshot, [parcel.info for parcel in some if parcel.info is not None])
            for found in ask_each(snapshot.store, partial(_read, snapshot, self.plan, hidden), some):
                yield from found


def _account(store: RetriedStore) -> Parcel:
    return Parcel(file=ACCOUNT, info=None, rows=pa.table({REQUESTS: pa.array([store.meter.snapshot().requests], pa.int64())}))


def _read_now(snapshot: Snapshot, plan: PartialPlan, parcel: Parcel) -> list[Parcel]:
    assert parcel.info is not None, "a parcel of keys names its file"
    return _read(snapshot, plan, hidden_by_path(snapshot, [parcel.info]), parcel)


def _read(snapshot: Snapshot, plan: PartialPlan, hidden: Mapping[str, Hidden | None], parcel: Parcel) -> list[Parcel]:
    """The stored rows of the keys; what was read already passes."""
    if parcel.info is None:
        return [parcel]
    definition, order = plan.definition, plan.compare.order_field
    keys = sorted_by_key(parcel.rows.combine_chunks(), definition)
    columns = list(dict.fromkeys([*definition.key_fields, *([order] if order is not None else []), *plan.missing]))
    rows = match_rows(snapshot, candidate_of(parcel.info, keys, definition), columns, hidden[parcel.info.path]).rows
    at, places = pairs_of(*numbered(keys, rows, definition))
    if not len(at):
        return []
    late = np.zeros(len(at), np.bool_) if order is None else is_late(keys[ORDER], rows[order.name], at, places)
    old = _old_rows(parcel.info, rows.take(pa.array(places)), late, plan.missing)
    return _by_own_file(keys.take(pa.array(at)), old)


def _old_rows(info: ChunksetInfo, rows: pa.Table, late: NDArray[np.bool_], missing: Iterable[Field]) -> pa.Table:
    columns = {
        OLD_PARTITION: pa.repeat(pa.scalar(info.partition, pa.string()), rows.num_rows),
        OLD_FILE: pa.repeat(pa.scalar(info.file_name, pa.string()), rows.num_rows),
        OLD_ROW: rows[ROW],
        LATE: pa.array(late),
    }
    return pa.table(columns | {field.name: rows[field.name] for field in missing})


def _by_own_file(keys: pa.Table, old: pa.Table) -> list[Parcel]:
    rows = old.append_column(OWN_ROW, keys[OWN_ROW])
    files = pc.unique(keys[OWN_FILE]).to_pylist()
    return [Parcel(file=path, info=None, rows=rows.filter(pc.equal(keys[OWN_FILE], path))) for path in files]
