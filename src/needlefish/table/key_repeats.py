"""Keys that occur more than once in rows of any order: suspected by their hashes, decided by the keys themselves."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from needlefish.filters.hash import hash_key
from needlefish.format.key_order import encode_key
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.schema import Field

Key = dict[str, object]


def key_hashes(rows: pa.Table, fields: Sequence[Field]) -> NDArray[np.uint64]:
    """One hash for each row; equal keys have equal ones, whatever bits a float among them has."""
    return hash_key([_canonical(rows[field.name]) for field in fields]).hashes


def _canonical(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """-0.0 becomes 0.0, and every NaN the same one."""
    if not pa.types.is_floating(column.type):
        return column
    plain = pc.add(column, pa.scalar(0.0, column.type))
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), column.type), plain)


class KeyRepeats:
    """Sees the rows of one chunkset, a granule at a time; holds eight bytes for each."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self._hashes: list[NDArray[np.uint64]] = []

    def add(self, rows: pa.Table) -> None:
        self._hashes.append(key_hashes(rows, self._fields))

    def first(self, again: Iterable[pa.Table]) -> Key | None:
        """A key that occurs twice; `again` are the same rows once more, looked at only if hashes repeat."""
        values, counts = np.unique(np.concatenate(self._hashes), return_counts=True) if self._hashes else (np.empty(0), np.empty(0))
        doubtful = values[counts > 1]
        if not len(doubtful):
            return None
        seen: set[bytes] = set()
        for encoded, key in keys_with(again, self._fields, doubtful):
            if encoded in seen:
                return key
            seen.add(encoded)
        return None


def keys_with(
    rows: Iterable[pa.Table], fields: Sequence[Field], hashes: Collection[int] | NDArray[np.uint64]
) -> Iterator[tuple[bytes, Key]]:
    """The keys whose hashes are among `hashes`: encoded, and as people read them."""
    wanted = np.fromiter(hashes, np.uint64, len(hashes))
    types = [field.arrow_type for field in fields]
    for part in rows:
        chosen = part.filter(pa.array(np.isin(key_hashes(part, fields), wanted)))
        for row in chosen.select([field.name for field in fields]).to_pylist():
            yield encode_key(list(row.values()), types), row


def overlapping(infos: Iterable[ChunksetInfo]) -> list[ChunksetInfo]:
    """The files that share a stretch of keys with another one."""
    found: dict[str, ChunksetInfo] = {}
    # The file so far that reaches furthest: who begins before its end shares a stretch of keys with it.
    furthest: ChunksetInfo | None = None
    for info in sorted(infos, key=lambda info: (info.first_key, info.last_key)):
        if furthest is not None and info.first_key <= furthest.last_key:
            found |= {furthest.path: furthest, info.path: info}
        if furthest is None or info.last_key > furthest.last_key:
            furthest = info
    return list(found.values())
