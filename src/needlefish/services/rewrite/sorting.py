"""Rows of any order made into sorted streams: in stretches of bounded size, all but the last of which wait on disk.

Adopted files need it, and clustered ones that are to be sorted by key again.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from tempfile import TemporaryFile
from typing import IO

import pyarrow as pa

from needlefish.model.schema import Field
from needlefish.services.rewrite.merging import SortedStream, sorted_by
from needlefish.table.key_bounds import key_at

# What is sorted at once; sorting takes about twice this.
_STRETCH_BYTES = 64 * 1024 * 1024
# Rows of a piece, as a granule has them.
_PIECE_ROWS = 4_096


def sorted_streams(
    rows: Iterable[pa.Table], keys: Sequence[Field], kept: ExitStack, stretch_bytes: int = _STRETCH_BYTES
) -> list[SortedStream]:
    """One stream for each stretch. Files are this machine's own and nameless; they are gone once `kept` is closed."""
    streams: list[SortedStream] = []
    waiting: list[pa.Table] = []
    for piece in rows:
        waiting.append(piece)
        if sum(part.nbytes for part in waiting) >= stretch_bytes:
            streams.append(_spilled(sorted_by(pa.concat_tables(waiting), keys), keys, kept))
            waiting = []
    if sum(part.num_rows for part in waiting):
        stretch = sorted_by(pa.concat_tables(waiting), keys)
        streams.append(SortedStream(first_key=key_at(stretch, 0, keys), pieces=partial(_pieces, stretch)))
    return streams


def _pieces(stretch: pa.Table) -> Iterator[pa.Table]:
    return (stretch.slice(first, _PIECE_ROWS) for first in range(0, stretch.num_rows, _PIECE_ROWS))


def _spilled(stretch: pa.Table, keys: Sequence[Field], kept: ExitStack) -> SortedStream:
    file = kept.enter_context(TemporaryFile())  # noqa: SIM115
    with pa.ipc.new_stream(file, stretch.schema) as writer:
        writer.write_table(stretch, max_chunksize=_PIECE_ROWS)
    return SortedStream(first_key=key_at(stretch, 0, keys), pieces=partial(_read, file))


def _read(file: IO[bytes]) -> Iterator[pa.Table]:
    file.seek(0)
    with pa.ipc.open_stream(file) as reader:
        yield from (pa.Table.from_batches([batch]) for batch in reader)
