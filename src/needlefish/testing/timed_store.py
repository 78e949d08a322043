"""Any store with times from a clock that a test owns: what was put grows old when the test lets time pass.

The store's time is nobody else's: give the workers clocks that differ from it by hours, and nothing may change.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from needlefish.runtime import Clock
from needlefish.store.base import ByteRange, ObjectInfo, Store


class TimedStore:
    """A Store over another, whose `modified_ms` is when the object was put through here, by `clock`.

    What was there before has the time at which this was made. It has no local paths, so that no time comes from a file.
    """

    def __init__(self, inner: Store, clock: Clock) -> None:
        self._inner = inner
        self._clock = clock
        self._made_ms = clock.now_ms()
        self._put_ms: dict[str, int] = {}

    @property
    def uri(self) -> str:
        return self._inner.uri

    def get(self, path: str) -> bytes:
        return self._inner.get(path)

    def get_range(self, path: str, span: ByteRange) -> bytes:
        return self._inner.get_range(path, span)

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        return self._inner.get_ranges(path, spans)

    def head(self, path: str) -> ObjectInfo:
        return self._timed(self._inner.head(path))

    def put(self, path: str, data: bytes) -> None:
        self._inner.put(path, data)
        self._put_ms[path] = self._clock.now_ms()

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._inner.put_if_absent(path, data)
        self._put_ms[path] = self._clock.now_ms()

    def delete(self, paths: Iterable[str]) -> None:
        keys = list(paths)
        self._inner.delete(keys)
        for path in keys:
            self._put_ms.pop(path, None)

    def _timed(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, modified_ms=self._put_ms.get(info.path, self._made_ms))

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        return map(self._timed, self._inner.list(prefix, start_after))
