"""The first and the last key of rows, in whatever order they lie."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.format.key_order import encode_key, lower_bound, upper_bound
from needlefish.model.schema import Field

# Keys longer than this are rounded outwards in the chunkset info; the range stays right and the file list small.
_MOST_KEY_BYTES = 256


def rounded_keys(first: bytes, last: bytes) -> tuple[bytes, bytes]:
    """First and last key as a chunkset info keeps them."""
    return lower_bound(first, _MOST_KEY_BYTES), upper_bound(last, _MOST_KEY_BYTES)


def key_at(rows: pa.Table | pa.RecordBatch, at: int, fields: Sequence[Field]) -> bytes:
    """The key of one row, in key order."""
    return encode_key([rows[field.name][at].as_py() for field in fields], [field.arrow_type for field in fields])


class KeyBounds:
    """Sees the rows of one chunkset, a granule at a time; `first` and `last` are exact."""

    def __init__(self, fields: Sequence[Field], *, is_sorted: bool) -> None:
        self._fields = fields
        self._is_sorted = is_sorted
        self.first: bytes | None = None
        self.last: bytes | None = None

    def add(self, rows: pa.Table) -> None:
        """Key columns have no nulls."""
        if not rows.num_rows:
            return
        first, last = (key_at(rows, at, self._fields) for at in self._ends(rows))
        self.first = first if self.first is None else min(self.first, first)
        self.last = last if self.last is None else max(self.last, last)

    def _ends(self, rows: pa.Table) -> tuple[int, int]:
        if self._is_sorted:
            return 0, rows.num_rows - 1
        order = pc.sort_indices(rows, sort_keys=[(field.name, "ascending") for field in self._fields])
        return order[0].as_py(), order[-1].as_py()
