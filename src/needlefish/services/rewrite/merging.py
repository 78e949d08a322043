"""Streams of rows sorted by key as one, in memory of a piece of each stream that shares keys with what is being read.

A stream whose first key lies ahead is not opened yet, so that inputs with keys of their own are read one after the other.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.errors import InvalidError
from needlefish.model.chunkset import OrderedKey
from needlefish.model.schema import Field
from needlefish.table.key_bounds import key_at
from needlefish.table.row_order import equal_next


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedStream:
    """Rows in key order, a piece at a time. `first_key` is not above the first of them."""

    first_key: OrderedKey
    pieces: Callable[[], Iterator[pa.Table]]


def merged_rows(streams: Sequence[SortedStream], keys: Sequence[Field]) -> Iterator[pa.Table]:
    """All rows in key order. A key that two streams have is refused: only one of its rows could go on.

    Up to the least of the last keys at hand no stream can bring anything more, so that such a stretch of all streams is
    sorted at once.
    """
    waiting = sorted(streams, key=lambda stream: stream.first_key, reverse=True)
    cursors: list[_Cursor] = []
    while waiting or cursors:
        cursors = _opened(cursors, waiting, keys)
        if cursors:
            bound = min(cursor.last_key for cursor in cursors)
            parts = [part for part in (cursor.take(bound) for cursor in cursors) if part.num_rows]
            yield parts[0] if len(parts) == 1 else _sorted(parts, keys)
        cursors = [cursor for cursor in cursors if cursor.piece is not None]


def _opened(cursors: list["_Cursor"], waiting: list[SortedStream], keys: Sequence[Field]) -> list["_Cursor"]:
    """With every stream that may have a key up to the bound; those that turn out to be empty are left out."""
    cursors = list(cursors)
    while waiting and (not cursors or waiting[-1].first_key <= min(cursor.last_key for cursor in cursors)):
        cursor = _Cursor(waiting.pop().pieces(), keys)
        cursors += [cursor] if cursor.piece is not None else []
    return cursors


class _Cursor:
    """A place in one stream; `piece` is what is at hand, None at the end."""

    def __init__(self, pieces: Iterator[pa.Table], keys: Sequence[Field]) -> None:
        self._pieces = pieces
        self._keys = keys
        self.piece: pa.Table | None = None
        self._first_key = self.last_key = b""
        self._advance()

    def take(self, bound: OrderedKey) -> pa.Table:
        """The rows at hand with keys up to `bound`."""
        assert self.piece is not None, "a cursor at its end is not asked"
        if self.last_key <= bound:
            taken = self.piece
            self._advance()
            return taken
        if self._first_key > bound:
            return self.piece.slice(0, 0)
        piece = self.piece
        end = bisect_right(range(piece.num_rows), bound, key=lambda at: key_at(piece, at, self._keys))
        self.piece = piece.slice(end)
        self._first_key = key_at(self.piece, 0, self._keys)
        return piece.slice(0, end)

    def _advance(self) -> None:
        self.piece = next((piece for piece in self._pieces if piece.num_rows), None)
        if self.piece is not None:
            self._first_key = key_at(self.piece, 0, self._keys)
            self.last_key = key_at(self.piece, self.piece.num_rows - 1, self._keys)


def _sorted(parts: list[pa.Table], keys: Sequence[Field]) -> pa.Table:
    rows = sorted_by(pa.concat_tables(parts), keys)
    found = rows.select([key.name for key in keys]).combine_chunks().to_batches()[0]
    at = pc.index(equal_next(found), True).as_py()
    if at >= 0:
        key = found.slice(at, 1).to_pylist()[0]
        raise InvalidError(f"the key {key} is visible in more than one file; upsert its row anew, which hides all others, and compact then")
    return rows


def sorted_by(rows: pa.Table, keys: Sequence[Field]) -> pa.Table:
    """The rows in key order; key columns have no nulls."""
    return rows.take(pc.sort_indices(rows, [(key.name, "ascending") for key in keys])).combine_chunks()
