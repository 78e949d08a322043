"""Sorted streams as one: right order for every key type, nothing lost, and never more in memory than it takes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.errors import InvalidError
from needlefish.format.key_order import encode_key
from needlefish.model.schema import Field, schema_from_text
from needlefish.services.rewrite.merging import SortedStream, merged_rows
from needlefish.services.rewrite.sorting import sorted_streams

SCHEMA = schema_from_text("id string, n double, d decimal(9,2), u uint64")
ROW = st.tuples(
    st.text(st.sampled_from("a\x00bä😀"), max_size=3),
    st.floats(width=64),
    st.decimals(-100, 100, places=2),
    st.integers(0, 2**64 - 1),
)


def encoded(row: Sequence[Any], keys: Sequence[Field] = SCHEMA.fields) -> bytes:
    return encode_key(list(row), [key.arrow_type for key in keys])


def rows_table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = [pa.array([row[at] for row in rows], field.arrow_type) for at, field in enumerate(SCHEMA.fields)]
    return pa.Table.from_arrays(columns, schema=SCHEMA.to_arrow())


def pieces(rows: Sequence[Sequence[Any]], each: int) -> Callable[[], Iterator[pa.Table]]:
    return lambda: (rows_table(rows[first : first + each]) for first in range(0, len(rows), each))


def stream(rows: Sequence[Sequence[Any]], each: int) -> SortedStream:
    return SortedStream(first_key=encoded(rows[0])[:3] if rows else b"", pieces=pieces(rows, each))


def keys_in(tables: Iterator[pa.Table]) -> list[bytes]:
    return [encoded(tuple(row.values())) for table in tables for row in table.to_pylist()]


@given(st.lists(ROW, max_size=40, unique_by=encoded), st.integers(1, 5), st.integers(1, 4), st.randoms(use_true_random=False))
def test_any_streams_of_composite_keys(rows: list[Any], count: int, each: int, random: Any) -> None:
    dealt: list[list[Any]] = [[] for _ in range(count)]
    for row in sorted(rows, key=encoded):
        random.choice(dealt).append(row)
    found = keys_in(merged_rows([stream(some, each) for some in dealt], SCHEMA.fields))
    assert found == sorted(map(encoded, rows))


@given(st.lists(ROW, max_size=40, unique_by=encoded), st.integers(1, 3000))
def test_rows_of_any_order_become_sorted_streams(rows: list[Any], stretch_bytes: int) -> None:
    with ExitStack() as kept:
        streams = sorted_streams(pieces(rows, 3)(), SCHEMA.fields, kept, stretch_bytes)
        found = keys_in(merged_rows(streams, SCHEMA.fields))
        assert all(keys_in(one.pieces())[0] == one.first_key for one in streams)
    assert found == sorted(map(encoded, rows))


def numbered(first: int, end: int, step: int = 1) -> list[tuple[Any, ...]]:
    return [(f"k{number:06}", 0.0, Decimal(0), 0) for number in range(first, end, step)]


class Counted:
    """Rows that streams have handed out and that are not yet merged, and how many streams were open at once."""

    def __init__(self) -> None:
        self.held = self.most_held = self.open = self.most_open = 0

    def stream(self, rows: Sequence[Any], each: int) -> SortedStream:
        def counted() -> Iterator[pa.Table]:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
            for piece in pieces(rows, each)():
                self.held += piece.num_rows
                self.most_held = max(self.most_held, self.held)
                yield piece
            self.open -= 1

        return SortedStream(first_key=encoded(rows[0]), pieces=counted)

    def merged(self, streams: list[SortedStream]) -> int:
        rows = 0
        for table in merged_rows(streams, SCHEMA.fields):
            rows += table.num_rows
            self.held -= table.num_rows
        return rows


def test_memory_holds_a_piece_of_each_stream() -> None:
    counted = Counted()
    streams = [counted.stream(numbered(number, 3000, 10), each=10) for number in range(10)]
    assert counted.merged(streams) == 3000
    # A piece of each, and the next of those that were used up.
    assert counted.most_held <= 2 * 10 * 10
    assert counted.most_open == 10


def test_streams_with_keys_of_their_own_are_read_one_after_the_other() -> None:
    counted = Counted()
    streams = [counted.stream(numbered(first, first + 100), each=10) for first in range(0, 2000, 100)]
    assert counted.merged(streams[::-1]) == 2000
    assert counted.most_open == 1
    assert counted.most_held <= 20


def test_a_key_in_two_streams_is_refused() -> None:
    streams = [stream(numbered(0, 10), 4), stream(numbered(7, 8), 4)]
    with pytest.raises(InvalidError, match=r"the key {'id': 'k000007'.*} is visible in more than one file; upsert its row anew"):
        list(merged_rows(streams, SCHEMA.fields))
