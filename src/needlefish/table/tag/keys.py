"""Keys on their way to the levels: collected from batches, sorted by partition and key, a bounded number at a time."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from needlefish.model.chunkset import PartitionPath
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import Field
from needlefish.table.conform import conform_to
from needlefish.table.find import Wanted, wanted_arrays
from needlefish.table.partition import PARTITION_COLUMN, computed_columns, partition_paths

# Every chunk asks the filters of all files in its range: few large chunks read them least often. These take some
# 150 MB of a task's memory.
MOST_ROWS = 500_000
MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChunk:
    """`rows` has the columns of `tag_fields`, in the order of `wanted`; with `by_partition`, only in that order."""

    rows: pa.Table
    wanted: Wanted
    # None if a key may be in any partition.
    by_partition: Mapping[PartitionPath, Wanted] | None


def tag_fields(definition: TableDefinition) -> tuple[Field, ...]:
    """The columns that decide where a key lives: the key's, and those of its partition unless keys are global."""
    if definition.properties.global_keys:
        return definition.key_fields
    sources = (column.source for column in computed_columns(definition))
    return tuple(dict.fromkeys([*definition.key_fields, *(source for source in sources if source is not None)]))


def key_chunks(batches: Iterable[pa.RecordBatch], definition: TableDefinition) -> Iterator[KeyChunk]:
    """Delivered rows as chunks; refuses nulls in keys and values that do not fit the table's types."""
    fields = tag_fields(definition)
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if rows + batch.num_rows > MOST_ROWS or size + batch.nbytes > MOST_BYTES:
            yield from _chunk(waiting, definition)
            waiting, rows, size = [], 0, 0
        waiting.append(conform_to(fields, batch, definition))
        rows, size = rows + batch.num_rows, size + batch.nbytes
    yield from _chunk(waiting, definition)


def _chunk(batches: list[pa.RecordBatch], definition: TableDefinition) -> Iterator[KeyChunk]:
    rows = pa.Table.from_batches(batches).combine_chunks() if batches else None
    if not rows:
        return
    columns = computed_columns(definition)
    if definition.properties.global_keys or not columns:
        rows = sorted_by_key(rows, definition)
        yield KeyChunk(rows=rows, wanted=_wanted(rows, definition), by_partition=None)
        return
    paths = partition_paths(rows.to_batches()[0], columns).dictionary_encode()
    order = pc.sort_indices(rows.append_column(PARTITION_COLUMN, paths.indices), [(PARTITION_COLUMN, "ascending"), *_by_key(definition)])
    rows, numbers = rows.take(order), paths.indices.take(order).to_numpy()
    wanted = _wanted(rows, definition)
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    parts = {PartitionPath(paths.dictionary[numbers[first]].as_py()): wanted.part(first, end) for first, end in pairwise(cuts)}
    yield KeyChunk(rows=rows, wanted=wanted, by_partition=parts)


def sorted_by_key(rows: pa.Table, definition: TableDefinition) -> pa.Table:
    return rows.take(pc.sort_indices(rows, _by_key(definition)))


def _by_key(definition: TableDefinition) -> list[tuple[str, str]]:
    return [(field.name, "ascending") for field in definition.key_fields]


def _wanted(rows: pa.Table, definition: TableDefinition) -> Wanted:
    return wanted_arrays(definition, [rows[field.name].combine_chunks() for field in definition.key_fields])
