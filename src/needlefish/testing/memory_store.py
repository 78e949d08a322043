"""A Store in a dict, with times from a clock that a test owns: for thousands of small runs from the same beginning.

`built = MemoryStore(clock)`, fill it once, then `built.copy(FakeClock())` for each run: objects do not change, so that a copy
costs one pointer for each of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from needlefish.errors import AlreadyExistsError, NotFoundError
from needlefish.runtime import Clock
from needlefish.store.base import ByteRange, ObjectInfo
from needlefish.store.paths import check_path, check_prefix
from needlefish.testing.fake_clock import FakeClock


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    data: bytes
    modified_ms: int


class MemoryStore:
    """Safe to share between threads: every operation is one step of a dict."""

    def __init__(self, clock: Clock | None = None, uri: str = "memory://kit") -> None:
        self._clock = clock or FakeClock()
        self._uri = uri
        self._objects: dict[str, _Object] = {}

    @property
    def uri(self) -> str:
        return self._uri

    def copy(self, clock: Clock | None = None) -> "MemoryStore":
        """The same objects with the same times, apart from now on."""
        other = MemoryStore(clock or self._clock, self._uri)
        other._objects = dict(self._objects)
        return other

    def snapshot(self) -> Mapping[str, bytes]:
        """All there is, by path in order."""
        return {path: self._objects[path].data for path in sorted(self._objects)}

    def get(self, path: str) -> bytes:
        return self._found(path).data

    def get_range(self, path: str, span: ByteRange) -> bytes:
        return self._found(path).data[span.start : span.end]

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        data = self._found(path).data if spans else b""
        return [data[span.start : span.end] for span in spans]

    def head(self, path: str) -> ObjectInfo:
        return _info(path, self._found(path))

    def put(self, path: str, data: bytes) -> None:
        self._objects[check_path(path)] = self._new(data)

    def put_if_absent(self, path: str, data: bytes) -> None:
        mine = self._new(data)
        if self._objects.setdefault(check_path(path), mine) is not mine:
            raise AlreadyExistsError(f"{self._uri}/{path} exists already")

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._objects.pop(check_path(path), None)

    def _new(self, data: bytes) -> _Object:
        return _Object(data=bytes(data), modified_ms=self._clock.now_ms())

    def _found(self, path: str) -> _Object:
        found = self._objects.get(check_path(path))
        if found is None:
            raise NotFoundError(f"{self._uri}/{path} does not exist")
        return found

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        # Text compares by code points, which is the order of its UTF-8 bytes.
        there = self._objects.copy()
        for path in sorted(path for path in there if path.startswith(check_prefix(prefix)) and path > (start_after or "")):
            yield _info(path, there[path])


def _info(path: str, found: _Object) -> ObjectInfo:
    return ObjectInfo(path=path, size=len(found.data), modified_ms=found.modified_ms)
