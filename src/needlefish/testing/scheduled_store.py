"""What a worker that takes turns sees: a store that asks before every call, and a clock whose sleep lets others work."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from needlefish.runtime import Clock
from needlefish.store.base import ByteRange, ObjectInfo, Store
from needlefish.store.meter import Kind


class Turns(Protocol):
    """Who decides: both return when the worker may go on."""

    def arrive(self, number: int, kind: Kind, *paths: str) -> None: ...

    def sleep(self, number: int, seconds: float) -> None: ...


class ScheduledStore:
    """A Store over another, for one worker. It has no local paths, so that no read gets around the scheduler."""

    def __init__(self, inner: Store, worker: int, turns: Turns) -> None:
        self._inner = inner
        self._worker = worker
        self._arrive = turns.arrive

    @property
    def uri(self) -> str:
        return self._inner.uri

    def get(self, path: str) -> bytes:
        self._arrive(self._worker, "get", path)
        return self._inner.get(path)

    def get_range(self, path: str, span: ByteRange) -> bytes:
        self._arrive(self._worker, "get_range", path)
        return self._inner.get_range(path, span)

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        self._arrive(self._worker, "get_range", path)
        return self._inner.get_ranges(path, spans)

    def head(self, path: str) -> ObjectInfo:
        self._arrive(self._worker, "head", path)
        return self._inner.head(path)

    def put(self, path: str, data: bytes) -> None:
        self._arrive(self._worker, "put", path)
        self._inner.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._arrive(self._worker, "put_if_absent", path)
        self._inner.put_if_absent(path, data)

    def delete(self, paths: Iterable[str]) -> None:
        """One call, as a store deletes many at once."""
        keys = list(paths)
        self._arrive(self._worker, "delete", *keys)
        self._inner.delete(keys)

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        """All entries as of the first: a listing that others change meanwhile is no promise of any store."""
        self._arrive(self._worker, "list", prefix)
        yield from tuple(self._inner.list(prefix, start_after))


class ScheduledClock:
    """The world's time as one worker sees it, perhaps wrong by some seconds."""

    def __init__(self, clock: Clock, worker: int, turns: Turns, ahead_seconds: float = 0) -> None:
        self._clock = clock
        self._worker = worker
        self._turns = turns
        self._ahead_seconds = ahead_seconds

    def ahead(self, seconds: float) -> "ScheduledClock":
        """The same for a worker whose clock is fast, or slow if it is less than nothing."""
        return ScheduledClock(self._clock, self._worker, self._turns, seconds)

    def now_ms(self) -> int:
        return self._clock.now_ms() + round(self._ahead_seconds * 1000)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        self._turns.sleep(self._worker, seconds)
