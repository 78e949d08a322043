"""Records of the `skips` runs: the hidden rows of one chunkset each, as a Roaring bitmap of their positions.

Unlike other records these add up: what the runs say of one chunkset is the union of their bitmaps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap

from needlefish.errors import CorruptError
from needlefish.format.metadata_key import file_key
from needlefish.format.run import IS_DELETED, KEY
from needlefish.model.chunkset import ChunksetInfo, PartitionPath

# The column with the bitmap, in Roaring's portable serialisation.
SKIPS = "skips"

SKIPS_SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.string(), nullable=False),
        pa.field(IS_DELETED, pa.bool_(), nullable=False),
        ("partition", pa.string()),
        ("file_name", pa.string()),
        (SKIPS, pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skips:
    """Rows of one chunkset that are hidden, by their positions in it."""

    partition: PartitionPath
    file_name: str
    rows: BitMap

    @property
    def key(self) -> str:
        """That of the chunkset's `files` record."""
        return file_key(self.partition, self.file_name)


def skips_in(info: ChunksetInfo, rows: Iterable[int]) -> Skips:
    """Hides these rows of a chunkset."""
    return Skips(partition=info.partition, file_name=info.file_name, rows=BitMap(rows))


def united(skips: Iterable[Skips]) -> dict[str, Skips]:
    """One for each chunkset, by key."""
    found: dict[str, Skips] = {}
    for one in skips:
        before = found.get(one.key)
        rows = one.rows if before is None else before.rows | one.rows
        found[one.key] = Skips(partition=one.partition, file_name=one.file_name, rows=rows)
    return found


def encode_skips(skips: Iterable[Skips]) -> pa.Table:
    """The records of one commit, sorted by key; what is said of one chunkset more than once is united."""
    rows = [_row(key, one) for key, one in sorted(united(skips).items()) if one.rows]
    return pa.Table.from_pylist(rows, schema=SKIPS_SCHEMA)


def _row(key: str, skips: Skips) -> dict[str, object]:
    rows = skips.rows.copy()
    rows.run_optimize()
    return {KEY: key, IS_DELETED: False, "partition": skips.partition, "file_name": skips.file_name, SKIPS: rows.serialize()}


def decode_skips(row: Mapping[str, object]) -> Skips:
    """One record that is no tombstone."""
    partition, file_name = str(row["partition"]), str(row["file_name"])
    return Skips(partition=PartitionPath(partition), file_name=file_name, rows=decode_rows(row[SKIPS], f"{partition}/{file_name}"))


def decode_rows(data: object, owner: str) -> BitMap:
    """The bitmap of a record; what is no bitmap must not pass for an empty one, which would bring hidden rows back."""
    try:
        return BitMap.deserialize(data)  # type: ignore[arg-type]
    except (ValueError, IndexError, TypeError) as error:
        raise CorruptError(f"the skips of {owner} are no Roaring bitmap: {error}") from error
