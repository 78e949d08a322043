"""Objects as files. Reads go straight to the kernel: 4 us where obstore takes 75; writes are durable.

No file is kept open between reads: checking that a kept one was not replaced costs as much as opening it again
(docs/decisions/0202-local-reads.md has the numbers).
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from needlefish.errors import InvalidError, NotFoundError
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import durable
from needlefish.store.base import ByteRange, ObjectInfo
from needlefish.store.paths import check_path, check_prefix
from needlefish.store.translation import from_os
from needlefish.store.walk import Walk, describe

_READ = os.O_RDONLY | os.O_CLOEXEC
# pread allocates what it is asked for, so a longer range is first cut at the end of the file.
_TRUSTED_BYTES = 1 << 20


class LocalStore:
    """A Store over one directory. The directory is made by the first put, never by opening or reading."""

    def __init__(self, root: str, runtime: Runtime = SYSTEM) -> None:
        self._root = os.path.abspath(root)
        self._base = self._root.rstrip("/") + "/"
        self._runtime = runtime

    @property
    def uri(self) -> str:
        return self._root

    def local_path(self, path: str) -> str | None:
        """Where the object's file is, so that a reader may map it into memory."""
        return self._base + check_path(path)

    def get(self, path: str) -> bytes:
        return self._read(path, None)[0]

    def get_range(self, path: str, span: ByteRange) -> bytes:
        return self._read(path, (span,))[0] if span.length else b""

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        return self._read(path, spans) if any(span.length for span in spans) else [b""] * len(spans)

    def head(self, path: str) -> ObjectInfo:
        info = describe(self._base + check_path(path), path)
        if info is None:
            raise NotFoundError(f"{self._base}{path} does not exist")
        return info

    def put(self, path: str, data: bytes) -> None:
        self._write(path, data, durable.replace)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._write(path, data, durable.create)

    def delete(self, paths: Iterable[str]) -> None:
        # Not synced: an object that power loss brings back is an orphan like any other.
        for path in paths:
            self._delete(path)

    def _delete(self, path: str) -> None:
        full = self._base + check_path(path)
        try:
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                os.unlink(full)
        except OSError as error:
            raise from_os(error, full) from error

    def _read(self, path: str, spans: Sequence[ByteRange] | None) -> list[bytes]:
        full = self._base + check_path(path)
        try:
            handle = os.open(full, _READ)
            try:
                if spans is None:
                    return [_read_span(handle, 0, os.fstat(handle).st_size)]
                return [_read_span(handle, span.start, span.length) for span in spans]
            finally:
                os.close(handle)
        except OSError as error:
            raise from_os(error, full) from error

    def _write(self, path: str, data: bytes, write: durable.Write) -> None:
        full = self._base + check_path(path)
        try:
            write(full, data, self._runtime)
        except (NotADirectoryError, IsADirectoryError) as error:
            # Object stores allow `a` beside `a/b`; a file system does not.
            raise InvalidError(f"path={path!r}: {error.filename} is in its way in {self._root}; choose another name") from error
        except OSError as error:
            raise from_os(error, full) from error

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        walk = Walk(root=self._root, prefix=check_prefix(prefix), start_after=start_after or "")
        try:
            yield from walk.objects()
        except OSError as error:
            raise from_os(error, self._base + prefix) from error


def _read_span(handle: int, start: int, length: int) -> bytes:
    if length > _TRUSTED_BYTES:
        length = max(0, min(length, os.fstat(handle).st_size - start))
    data = os.pread(handle, length, start)
    return data if len(data) == length else _read_rest(handle, start, length, data)


def _read_rest(handle: int, start: int, length: int, data: bytes) -> bytes:
    """A short read is the end of the file, or the kernel's limit of 2 GiB per call."""
    pieces = [data]
    while data and (done := sum(map(len, pieces))) < length:
        data = os.pread(handle, length - done, start + done)
        pieces.append(data)
    return b"".join(pieces)
