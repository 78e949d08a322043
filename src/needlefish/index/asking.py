"""Asking for little in several places: at once where a request takes its time, one after the other on a local disk."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from needlefish.runtime import in_parallel
from needlefish.store import Store, local_path

T = TypeVar("T")
R = TypeVar("R")


def ask_each(store: Store, ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The answers in order. A hop to another thread costs more than a warm local read of a few KiB; and tasks of Spark have the
    other cores busy already, so that threads of one task do but wait for each other."""
    return [ask(item) for item in items] if local_path(store, "_") is not None else in_parallel(ask, items)
