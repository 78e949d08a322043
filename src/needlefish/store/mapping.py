"""Stores whose objects are files offer the file's path, so that a reader may map it into memory."""

import mmap
import os
from collections.abc import Sequence
from typing import Protocol, cast, runtime_checkable

from needlefish.errors import NotFoundError
from needlefish.store.base import ByteRange, Store
from needlefish.store.meter import Meter


class HasLocalPaths(Protocol):
    """An extra that a Store may offer; None means that the object has no file of its own here."""

    def local_path(self, path: str) -> str | None: ...


def local_path(store: Store, path: str) -> str | None:
    """The object's file if the store has one. What is read through it is not metered: tell the meter."""
    # Not isinstance: of a protocol that takes ten microseconds, and a find asks several times.
    return cast(HasLocalPaths, store).local_path(path) if hasattr(store, "local_path") else None


@runtime_checkable
class _Metered(Protocol):
    @property
    def meter(self) -> Meter: ...


class MappedFile:
    """A local object's bytes without a copy of them: for reads of megabytes, which copying would take most of the time of.

    Objects do not change. One that was cut short all the same would end the process that touches what is gone, so that its
    size is looked at before every read.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        with open(path, "rb") as file:
            self._bytes = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def read(self, store: Store, spans: Sequence[ByteRange]) -> list[memoryview]:
        """The spans, counted as the store's; NotFoundError if the file is gone or no longer whole."""
        try:
            whole = os.stat(self._path).st_size == len(self._bytes)
        except FileNotFoundError:
            whole = False
        if not whole:
            raise NotFoundError(f"{self._path} is not the file any more that it was")
        if isinstance(store, _Metered):
            store.meter.add("get_range", len(spans), sum(span.length for span in spans))
        return [self._bytes[span.start : span.end] for span in spans]


def mapped(store: Store, path: str) -> MappedFile | None:
    """The object mapped into memory if the store's objects are files here."""
    found = local_path(store, path)
    try:
        return None if found is None else MappedFile(found)
    except (OSError, ValueError):
        # Missing, empty or unreadable: whoever reads it the usual way is told how.
        return None
