"""Which point index answers a question, and the hashes under which it is asked."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from needlefish.errors import InvalidError
from needlefish.filters.hash import hash_key
from needlefish.filters.probes import probe_key_hashes
from needlefish.model.definition import TableDefinition
from needlefish.model.point_index import PointIndexDefinition
from needlefish.table.find.fitting import fitting
from needlefish.table.find.wanted import Wanted

# Up to so many values are hashed one by one, which is faster than arrays are set up.
_FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Hashes to probe for, and the value that each belongs to: one value may have several."""

    hashes: NDArray[np.uint64]
    places: NDArray[np.int64]


def best_index(definition: TableDefinition, wanted: Wanted) -> PointIndexDefinition | None:
    """The index that tells most: over most of the wanted columns, then the finest."""
    known = {field.id for field in wanted.fields}
    usable = [index for index in definition.point_indexes if known.issuperset(index.fields)]
    return max(usable, key=lambda index: (len(index.fields), index.granularity == "row_group", index.kind == "postings"), default=None)


def asked_hashes(definition: TableDefinition, index: PointIndexDefinition, wanted: Wanted) -> Asked | None:
    """None if a value has more encodings than can be asked for, as NaN has."""
    at = [[field.id for field in wanted.fields].index(field_id) for field_id in index.fields]
    arrays = [wanted.arrays[place] for place in at]
    types = _types(definition, index)
    if len(wanted) <= _FEW:
        return _one_by_one(arrays, types)
    odd = many_encoded(arrays)
    found = [_hashed(arrays, kinds) for kinds in types]
    few = _one_by_one([array.take(pa.array(odd)) for array in arrays], types) if len(odd) else None
    if len(odd) and few is None:
        return None
    if few is not None:
        found.append((few.hashes, odd[few.places]))
    hashes, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Asked(hashes=hashes, places=places)


def _types(definition: TableDefinition, index: PointIndexDefinition) -> list[tuple[pa.DataType, ...]]:
    """Under which types the indexed columns have been stored: a file's hashes follow the schema it was written with."""
    found: dict[tuple[pa.DataType, ...], None] = {}
    for schema in definition.schemas:
        known = {field.id: field for field in schema.fields}
        if known.keys() >= set(index.fields):
            found[tuple(known[field_id].arrow_type for field_id in index.fields)] = None
    return list(found)


def _hashed(arrays: Sequence[pa.Array], kinds: tuple[pa.DataType, ...]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    hashed = hash_key([fitting(array, kind) for array, kind in zip(arrays, kinds, strict=True)])
    places = np.arange(len(hashed), dtype=np.int64)
    return hashed.present(), places if hashed.valid is None else places[hashed.valid]


def _one_by_one(arrays: Sequence[pa.Array], types: list[tuple[pa.DataType, ...]]) -> Asked | None:
    hashes: list[int] = []
    places: list[int] = []
    for place, value in enumerate(zip(*(array.to_pylist() for array in arrays), strict=True)):
        if any(part != part for part in value):
            return None
        found = _hashes_of(value, types)
        hashes += found
        places += [place] * len(found)
    return Asked(hashes=np.array(hashes, np.uint64), places=np.array(places, np.int64))


def _hashes_of(value: tuple[object, ...], types: list[tuple[pa.DataType, ...]]) -> list[int]:
    found: dict[int, None] = {}
    for kinds in types:
        try:
            found.update(dict.fromkeys(probe_key_hashes(value, [[kind] for kind in kinds])))
        except InvalidError:
            # A narrower type of earlier files cannot hold the value.
            continue
    return list(found)


def many_encoded(arrays: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Places of values with more than one encoding: zeros have two and NaN many."""
    odd = np.zeros(len(arrays[0]), np.bool_)
    for array in arrays:
        if pa.types.is_floating(array.type):
            numbers = array.to_numpy(zero_copy_only=False)
            odd |= (numbers == 0) | np.isnan(numbers)
    return np.flatnonzero(odd).astype(np.int64)
