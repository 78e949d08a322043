"""Decides which requests a call becomes and counts every one of them, failed attempts included."""

from collections.abc import Iterable, Iterator, Sequence

from needlefish.store.base import ByteRange, ObjectInfo, Store
from needlefish.store.mapping import local_path
from needlefish.store.meter import Meter
from needlefish.store.shapes import LOCAL, RequestShape
from needlefish.store.spans import read_spans


class MeteredStore:
    """Wraps a bare store; retries belong outside, so that each attempt is seen here."""

    def __init__(self, inner: Store, meter: Meter, shape: RequestShape = LOCAL) -> None:
        self._inner = inner
        self._meter = meter
        self._add = meter.add
        self._shape = shape

    @property
    def uri(self) -> str:
        return self._inner.uri

    @property
    def meter(self) -> Meter:
        return self._meter

    def apart(self) -> "MeteredStore":
        """The same store, counted from zero."""
        return MeteredStore(self._inner, Meter(), self._shape)

    def local_path(self, path: str) -> str | None:
        return local_path(self._inner, path)

    def get(self, path: str) -> bytes:
        data = b""
        try:
            data = self._inner.get(path)
        finally:
            self._add("get", 1, len(data))
        return data

    def get_range(self, path: str, span: ByteRange) -> bytes:
        if not span.length:
            return b""
        data = b""
        try:
            data = self._inner.get_range(path, span)
        finally:
            self._add("get_range", 1, len(data))
        return data

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        gap = self._shape.gap_bytes
        if gap is None:
            return self._fetch(path, spans)
        return read_spans(spans, gap, lambda requests: self._fetch(path, requests))

    def head(self, path: str) -> ObjectInfo:
        self._add("head", 1, 0)
        return self._inner.head(path)

    def put(self, path: str, data: bytes) -> None:
        self._add("put", self._shape.put_requests(len(data)), len(data))
        self._inner.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._add("put_if_absent", 1, len(data))
        self._inner.put_if_absent(path, data)

    def delete(self, paths: Iterable[str]) -> None:
        keys = list(paths)
        self._add("delete", self._shape.delete_requests(len(keys)), 0)
        self._inner.delete(keys)

    def _fetch(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        found: list[bytes] = []
        try:
            found = self._inner.get_ranges(path, spans)
        finally:
            self._add("get_range", sum(1 for span in spans if span.length), sum(map(len, found)))
        return found

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        # The first page is asked for even if it turns out empty; each later one when its first entry is.
        self._add("list", 1, 0)
        for number, info in enumerate(self._inner.list(prefix, start_after)):
            if number and number % self._shape.page_keys == 0:
                self._add("list", 1, 0)
            yield info
