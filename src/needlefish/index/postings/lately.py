"""What a reader keeps: the things used last, and no more than so many."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Lately(Generic[T]):
    """By number. Safe to share between threads; two that miss at once both read, which costs a request and nothing else."""

    __slots__ = ("_kept", "_limit", "_lock")

    def __init__(self, limit: int) -> None:
        self._kept: OrderedDict[int, T] = OrderedDict()
        self._limit = limit
        self._lock = Lock()

    def get(self, number: int) -> T | None:
        with self._lock:
            found = self._kept.get(number)
            if found is not None:
                self._kept.move_to_end(number)
            return found

    def keep(self, number: int, thing: T) -> None:
        with self._lock:
            self._kept[number] = thing
            self._kept.move_to_end(number)
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
