"""Partial rows, the last task: staged rows and the columns that they lacked meet, and become chunksets.

A staged file holds a range of keys, each once, so that its rows need no further shuffle: what was read for them comes to them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap

from needlefish.errors import InvalidError
from needlefish.format.skips_record import Skips
from needlefish.model.chunkset import PartitionPath
from needlefish.model.entries import ChunksetEntries
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store
from needlefish.table.chunkset_writer import WritePlan, write_chunksets
from needlefish.table.partition import PARTITION_COLUMN, computed_columns, partition_paths
from needlefish.table.point.runs import indexed_keys
from needlefish.table.tag.parcel import Parcel, parcels_of
from needlefish.table.task import answered, hand_back, note_row
from needlefish.table.upsert.key_file import read_keys
from needlefish.table.upsert.partial_read import ACCOUNT, LATE, OLD_FILE, OLD_PARTITION, OLD_ROW, REQUESTS, PartialPlan
from needlefish.table.upsert.plan import OWN_ROW
from needlefish.table.upsert.sources import SOURCE_SCHEMA, Source, source_rows, sources_of


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRows:
    """Stored rows of one chunkset; `rows` is a serialised bitmap."""

    partition: str
    file_name: str
    rows: bytes

    @property
    def skips(self) -> Skips:
        return Skips(partition=PartitionPath(self.partition), file_name=self.file_name, rows=BitMap.deserialize(self.rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteNote:
    """The stored rows that new ones replace, those that outrank new ones, and how many of the new ones are late."""

    replaced: tuple[OldRows, ...] = ()
    outranking: tuple[OldRows, ...] = ()
    late: int = 0
    requests: int = 0


def complete_note_of(data: bytes) -> CompleteNote:
    return msgspec.msgpack.decode(data, type=CompleteNote)


def head_parcels(sources: Iterable[Source]) -> Iterator[Parcel]:
    """One for every staged file, so that its rows are written even if nothing was found for them."""
    for source in sources:
        assert source.staged is not None, "only staged rows are completed"
        yield Parcel(file=source.staged.path, info=None, rows=source_rows([source]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteTask:
    """A callable over batches of parcels, those of one staged file in a row."""

    plan: PartialPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.within(open_store(self.plan.compare.store), parcels_of(batches))

    def within(self, store: RetriedStore, parcels: Iterable[Parcel]) -> Iterator[pa.RecordBatch]:
        """The same in a store that is open already."""
        state = self.plan.compare.state
        write = WritePlan(definition=state.definition, prev_max=state.version, indexed_keys=indexed_keys(state), owner=self.plan.owner)
        completing = _Completing(self.plan, store)
        yield from answered(hand_back(completing.written(parcels, write), write, store, SYSTEM.owned(write.owner)))
        yield note_row(msgspec.msgpack.encode(completing.note()))


class _Completing:
    """One task under way; counts what it did."""

    def __init__(self, plan: PartialPlan, store: RetriedStore) -> None:
        self._plan = plan
        self._store = store
        self._replaced: list[OldRows] = []
        self._outranking: list[OldRows] = []
        self._late = self._requests = 0

    def note(self) -> CompleteNote:
        requests = self._requests + self._store.meter.snapshot().requests
        return CompleteNote(replaced=tuple(self._replaced), outranking=tuple(self._outranking), late=self._late, requests=requests)

    def written(self, parcels: Iterable[Parcel], write: WritePlan) -> Iterator[ChunksetEntries]:
        for file, group in groupby(parcels, lambda parcel: parcel.file):
            if file == ACCOUNT:
                self._requests += sum(pc.sum(parcel.rows[REQUESTS]).as_py() for parcel in group)
            else:
                # Staged files come in any order, and rows must be sorted: each is written for itself.
                yield from write_chunksets([self._completed(list(group))], write, self._store, SYSTEM.owned(write.owner))

    def _completed(self, parcels: Sequence[Parcel]) -> pa.RecordBatch:
        (source,) = (found for parcel in parcels if _is_head(parcel) for batch in parcel.rows.to_batches() for found in sources_of(batch))
        assert source.staged is not None, "only staged rows are completed"
        staged = read_keys(self._store, source.staged).combine_chunks()
        found = [parcel.rows for parcel in parcels if not _is_head(parcel)]
        if not found:
            return self._routed(_joined(self._plan, staged, None, np.full(staged.num_rows, -1)))
        return self._merged(staged, pa.concat_tables(found).combine_chunks())

    def _merged(self, staged: pa.Table, old: pa.Table) -> pa.RecordBatch:
        # A key that lies in the table more than once has one of its rows kept, always the same, and all of them replaced.
        old = old.take(pc.sort_indices(old, [(name, "ascending") for name in (OWN_ROW, OLD_PARTITION, OLD_FILE, OLD_ROW)]))
        own, outranks = old[OWN_ROW].to_numpy(), old[LATE].to_numpy()
        places = np.full(staged.num_rows, -1)
        places[own] = np.arange(len(own))
        late = np.zeros(staged.num_rows, np.bool_)
        late[own[outranks]] = True
        self._late += int(late.sum())
        self._replaced += _positions(old.filter(pa.array(~outranks)))
        self._outranking += _positions(old.filter(pa.array(outranks)))
        left = pa.array(np.flatnonzero(~late))
        return self._routed(_joined(self._plan, staged.take(left).combine_chunks(), old, places[~late]))

    def _routed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Only whole rows of global keys say which partition they belong to."""
        definition = self._plan.definition
        if not definition.properties.global_keys:
            return rows
        rows = rows.set_column(
            rows.schema.get_field_index(PARTITION_COLUMN), PARTITION_COLUMN, partition_paths(rows, computed_columns(definition))
        )
        names = [PARTITION_COLUMN, *(field.name for field in definition.key_fields)]
        return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in names]))


def _is_head(parcel: Parcel) -> bool:
    return bool(parcel.rows.schema.names == SOURCE_SCHEMA.names)


def _joined(plan: PartialPlan, staged: pa.Table, old: pa.Table | None, places: NDArray[np.int64]) -> pa.RecordBatch:
    """The columns that are present from the new rows, the others from the stored ones at `places`, null where there is none."""
    _check_new(plan, staged, places < 0)
    taken = pa.array(places, pa.int64(), mask=places < 0)
    columns = {field.name: pa.nulls(staged.num_rows, field.arrow_type) for field in plan.missing}
    if old is not None:
        columns = {name: _whole(old[name]).take(taken) for name in columns}
    columns |= {name: _whole(staged[name]) for name in staged.column_names}
    names = [*plan.definition.schema.names, PARTITION_COLUMN]
    return pa.RecordBatch.from_arrays([columns[name] for name in names], names=names)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _check_new(plan: PartialPlan, staged: pa.Table, is_new: NDArray[np.bool_]) -> None:
    required = [field for field in plan.missing if not field.nullable]
    if not required or not is_new.any():
        return
    at = int(np.argmax(is_new))
    key = staged.select([field.name for field in plan.definition.key_fields]).slice(at, 1).to_pylist()[0]
    field = required[0]
    raise InvalidError(
        f"df lacks column {field.name!r} ({field.type}), which every row must have, and the table has no row of the key {key} to keep it from; add the column, or leave out new keys"
    )


def _positions(old: pa.Table) -> list[OldRows]:
    by_file = old.group_by([OLD_PARTITION, OLD_FILE]).aggregate([(OLD_ROW, "list")])
    return [
        OldRows(partition=row[OLD_PARTITION], file_name=row[OLD_FILE], rows=BitMap(row[f"{OLD_ROW}_list"]).serialize())
        for row in by_file.to_pylist()
    ]
