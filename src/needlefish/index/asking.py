"""Asking for little in several places: at once where a request takes its time, one after the other on a local disk."""

import os
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import TypeVar

from needlefish.runtime import in_parallel
from needlefish.store import Store, local_path

T = TypeVar("T")
R = TypeVar("R")


def ask_each(store: Store, ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The answers in order. A hop to another thread costs more than a warm local read of a few KiB; and tasks of Spark have the
    other cores busy already, so that threads of one task do but wait for each other."""
    return [ask(item) for item in items] if local_path(store, "_") is not None else in_parallel(ask, items)


def read_each(store: Store, read: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The same for more work than a hop costs: on a local disk nothing waits, so that threads beyond the cores would only pass
    the interpreter's lock around."""
    if len(items) <= 1 or local_path(store, "_") is None:
        return in_parallel(read, items)
    cores = min(os.cpu_count() or 1, len(items))
    shares = in_parallel(lambda first: [(read(item),) for item in items[first::cores]], range(cores))
    dealt = chain.from_iterable(zip_longest(*shares))
    return [found[0] for found in dealt if found is not None]
