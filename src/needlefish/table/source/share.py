"""Dealing pieces out to tasks: neighbours together, as many bytes as keep a task busy for a few seconds."""

from collections.abc import Iterator, Sequence

import msgspec

from needlefish.table.source.plan import Piece

_TASK_BYTES = 64 * 1024 * 1024
# Less than this is not worth a second task; in between, work is spread over several.
_SMALL_BYTES = 8 * 1024 * 1024
_SPREAD_TASKS = 8
# A file costs requests, however little is read of it.
_FILE_BYTES = 128 * 1024


def shares(pieces: Sequence[Piece]) -> list[bytes]:
    """What each task is given; at least one, which may be empty."""
    most = min(_TASK_BYTES, max(_SMALL_BYTES, sum(map(_weight, pieces)) // _SPREAD_TASKS))
    return [msgspec.msgpack.encode(share) for share in _dealt(pieces, most)]


def _weight(piece: Piece) -> int:
    return piece.bytes + _FILE_BYTES


def _dealt(pieces: Sequence[Piece], most: int) -> Iterator[list[Piece]]:
    share: list[Piece] = []
    weight = 0
    for piece in pieces:
        if share and weight + _weight(piece) > most:
            yield share
            share, weight = [], 0
        share.append(piece)
        weight += _weight(piece)
    yield share
