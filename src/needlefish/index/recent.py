"""What a handle keeps in memory of immutable things: those used last, up to so many bytes."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Recent(Generic[K, T]):
    """Safe to share between threads; two that miss at once both read, which costs a request and nothing else."""

    __slots__ = ("_held_bytes", "_kept", "_limit_bytes", "_lock")

    def __init__(self, limit_bytes: int) -> None:
        self._kept: OrderedDict[K, tuple[T, int]] = OrderedDict()
        self._limit_bytes = limit_bytes
        self._held_bytes = 0
        self._lock = Lock()

    def get(self, key: K) -> T | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def keep(self, key: K, thing: T, nbytes: int) -> None:
        """`nbytes` is what the thing takes in memory, about. One that takes more than all the room there is is not kept."""
        if nbytes > self._limit_bytes:
            return
        with self._lock:
            self._held_bytes += nbytes - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = (thing, nbytes)
            while self._held_bytes > self._limit_bytes:
                self._held_bytes -= self._kept.popitem(last=False)[1][1]

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def __contains__(self, key: K) -> bool:
        """Without counting as a use."""
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)
