"""Damaging objects on purpose: deleted, cut short, or with one bit flipped where it hurts."""

from collections.abc import Callable

from needlefish.format.run import path_of
from needlefish.model.log import RunRef
from needlefish.store import Store


def flip(store: Store, path: str, at: int, bit: int = 0) -> None:
    """Flips one bit of the byte at a place; places below zero count from the end."""
    data = bytearray(store.get(path))
    data[at] ^= 1 << bit
    store.put(path, bytes(data))


def truncate(store: Store, path: str, size: int) -> None:
    store.put(path, store.get(path)[:size])


def _footer(run: RunRef) -> int:
    """A byte of the Arrow footer: ten before the end are its length and magic."""
    return run.bytes - 20


# Each by its name: what to do to a run.
RUN_DAMAGES: dict[str, Callable[[Store, RunRef], None]] = {
    "deleted": lambda store, run: store.delete([path_of(run)]),
    "cut in the header": lambda store, run: truncate(store, path_of(run), run.header_bytes // 2),
    "cut in a block": lambda store, run: truncate(store, path_of(run), run.header_bytes + 40),
    "header flipped": lambda store, run: flip(store, path_of(run), run.header_bytes // 2),
    "block flipped": lambda store, run: flip(store, path_of(run), run.header_bytes + 100),
    "footer flipped": lambda store, run: flip(store, path_of(run), _footer(run)),
}
