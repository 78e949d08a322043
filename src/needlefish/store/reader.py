"""An object as a read-only Python file, for libraries that want one: `pq.ParquetFile(StoreFile(store, path))`.

Every read is one range request and nothing is buffered: pyarrow plans its own reads, unless the caller knows them
beforehand.
"""

import io
from collections.abc import Sequence

from needlefish.errors import InvalidError
from needlefish.store.base import ByteRange, Store


class StoreFile(io.RawIOBase):
    """Random access over `Store.get_range`. A known `size` saves the request that asks for it. Not for use by two threads."""

    def __init__(self, store: Store, path: str, size: int | None = None) -> None:
        super().__init__()
        self._store = store
        self._path = path
        self._size = store.head(path).size if size is None else size
        self._position = 0

    @property
    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}
        if whence not in starts:
            raise InvalidError(f"whence={whence!r}: use 0 (start), 1 (here) or 2 (end)")
        if (position := starts[whence] + offset) < 0:
            raise InvalidError(f"offset={offset} leads to the negative position {position}: stay at 0 or above")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        if self.closed:
            raise InvalidError(f"{self._path} is read after its file was closed: open another StoreFile")
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        data = self._store.get_range(self._path, ByteRange(self._position, length)) if length else b""
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class SpanFile(StoreFile):
    """Has spans that are going to be read; a read outside of them is a request as ever.

    On a local disk this is as fast as a memory map, and it is metered and retried.
    """

    def __init__(self, store: Store, path: str, size: int) -> None:
        super().__init__(store, path, size)
        self._held: list[tuple[int, int, memoryview]] = []

    def hold(self, spans: Sequence[ByteRange], found: Sequence[bytes], store: Store | None = None) -> None:
        """These spans from now on; `store` pays for what is read besides."""
        self._held = [(span.start, span.end, memoryview(data)) for span, data in zip(spans, found, strict=True)]
        if store is not None:
            self._store = store

    def forget(self) -> None:
        self._held = []

    def read_buffer(self, size: int) -> "memoryview | bytes":
        """What pyarrow calls rather than `read` where it is there: nothing is copied."""
        start, end = self._position, self._position + size
        for first, last, data in self._held:
            if first <= start and end <= last:
                self._position = min(end, first + len(data))
                return data[start - first : end - first]
        return self.read(size)
