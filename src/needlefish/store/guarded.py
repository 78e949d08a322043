"""A store that looks up before each operation, so that work in this process can be told to stop."""

from collections.abc import Callable, Iterator
from typing import TypeVar, TypeVarTuple

from needlefish.store.base import ObjectInfo
from needlefish.store.retried import RetriedStore

Args = TypeVarTuple("Args")
R = TypeVar("R")


class GuardedStore(RetriedStore):
    """The store it was made from, over the same connections and meter. What `guard` raises ends the operation before it begins."""

    def __init__(self, store: RetriedStore, guard: Callable[[], None]) -> None:
        super().__init__(store._inner, store._config, store._runtime)
        self._guard = guard

    def apart(self) -> "GuardedStore":
        return GuardedStore(super().apart(), self._guard)

    def _retried(self, call: Callable[[*Args], R], *args: *Args) -> R:
        self._guard()
        return super()._retried(call, *args)

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        for found in super().list(prefix, start_after):
            self._guard()
            yield found
