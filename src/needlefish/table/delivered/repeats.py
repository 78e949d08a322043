"""Keys that several chunksets of one delivery have: suspected by their hashes, decided by the keys themselves.

Only files whose key ranges overlap are looked at. Memory holds hashes of `SLICE_ROWS` rows; of more rows than that, the keys
are read once for each slice of all hashes.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap

from needlefish.errors import InvalidError
from needlefish.format.skips_record import Skips, skips_in
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import RESERVED, Field
from needlefish.store import Store
from needlefish.table.chunkset_rows import all_rows, rows_at
from needlefish.table.delivered.sorting import order_rank
from needlefish.table.key_repeats import key_hashes, overlapping
from needlefish.table.row_order import equal_next

SLICE_ROWS = 4_000_000

_FILE, _ROW, _RANK = f"{RESERVED}_file", f"{RESERVED}_row", f"{RESERVED}_rank"


def refuse_repeats(store: Store, definition: TableDefinition, infos: Sequence[ChunksetInfo]) -> None:
    """For rows that are known to be new: each key may come once."""
    for suspects in _suspects(definition, infos):
        for rows in _repeated(store, definition, suspects, None):
            key = {field.name: rows[field.name][0].as_py() for field in definition.key_fields}
            where = "" if suspects[0].partition == "." or definition.properties.global_keys else f" in partition {suspects[0].partition}"
            raise InvalidError(f"df has the key {key} more than once{where}; append takes rows with distinct keys: deduplicate them first")


def hide_repeats(store: Store, definition: TableDefinition, infos: Sequence[ChunksetInfo], order: Field | None) -> Iterator[Skips]:
    """Hides all rows of a key but the one with the greatest `order`, of equal ones the one that came last: `infos` are in order."""
    for suspects in _suspects(definition, infos):
        for rows in _repeated(store, definition, suspects, order):
            files, positions = (rows[name].to_numpy() for name in (_FILE, _ROW))
            for number in np.unique(files):
                yield skips_in(suspects[number], positions[files == number].tolist())


def _suspects(definition: TableDefinition, infos: Sequence[ChunksetInfo]) -> Iterator[list[ChunksetInfo]]:
    """Files of one partition, or of the table where keys are global, that may have keys in common; in the order of `infos`."""
    places: dict[str, list[ChunksetInfo]] = defaultdict(list)
    for info in infos:
        places["" if definition.properties.global_keys else info.partition].append(info)
    for together in places.values():
        paths = {info.path for info in overlapping(together)}
        if paths:
            yield [info for info in together if info.path in paths]


def _repeated(store: Store, definition: TableDefinition, infos: Sequence[ChunksetInfo], order: Field | None) -> Iterator[pa.Table]:
    """The rows that another row of the same key outranks, with the file that each is in and its position."""
    slices = -(-sum(info.rows for info in infos) // SLICE_ROWS)
    for number in range(slices):
        doubtful = _doubtful(_hashes(store, definition, infos, number, slices), len(infos))
        rows = _outranked(_read(store, definition, zip(infos, doubtful, strict=True), order), definition, order)
        if rows.num_rows:
            yield rows


_Hashes = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]


def _hashes(store: Store, definition: TableDefinition, infos: Sequence[ChunksetInfo], number: int, slices: int) -> _Hashes:
    """The hash of every key in a slice, its file and its position."""
    found: list[_Hashes] = []
    for file, info in enumerate(infos):
        for positions, keys in rows_at(store, definition, info, all_rows(info), definition.key_fields):
            hashes = key_hashes(keys, definition.key_fields)
            chosen = hashes % np.uint64(slices) == number
            found.append((hashes[chosen], np.full(int(chosen.sum()), file, np.int64), positions[chosen]))
    columns = zip(*found, strict=True)
    return tuple(np.concatenate(column) for column in columns)  # type: ignore[return-value]


def _doubtful(hashes: _Hashes, files: int) -> list[BitMap]:
    """Of each file the rows whose hash occurs more than once."""
    values, of_file, positions = hashes
    order = np.argsort(values, kind="stable")
    same = values[order][1:] == values[order][:-1]
    repeated = order[np.concatenate([same, [False]]) | np.concatenate([[False], same])] if len(values) else order
    return [BitMap(positions[repeated][of_file[repeated] == number].tolist()) for number in range(files)]


def _read(
    store: Store, definition: TableDefinition, files: Iterable[tuple[ChunksetInfo, BitMap]], order: Field | None
) -> Iterator[pa.Table]:
    fields = list(dict.fromkeys([*definition.key_fields, *([order] if order is not None else [])]))
    for number, (info, rows) in enumerate(files):
        for positions, read in rows_at(store, definition, info, rows, fields):
            yield read.append_column(_FILE, pa.repeat(pa.scalar(number, pa.int64()), len(positions))).append_column(
                _ROW, pa.array(positions)
            )


def _outranked(parts: Iterable[pa.Table], definition: TableDefinition, order: Field | None) -> pa.Table:
    tables = list(parts)
    if not tables:
        return pa.table({_FILE: pa.array([], pa.int64())})
    rows = pa.concat_tables(tables)
    names = [field.name for field in definition.key_fields]
    by = [*names, _FILE, _ROW]
    if order is not None:
        rows = rows.append_column(_RANK, order_rank(rows[order.name]))
        by = [*names, _RANK, order.name, _FILE, _ROW]
    rows = rows.take(pc.sort_indices(rows, [(name, "ascending") for name in dict.fromkeys(by)])).combine_chunks()
    return rows.slice(0, rows.num_rows - 1).filter(equal_next(rows.select(names).to_batches()[0]))
