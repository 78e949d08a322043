"""Stores whose objects are files offer the file's path, so that pyarrow may map it into memory."""

from typing import Protocol, runtime_checkable

from needlefish.store.base import Store


@runtime_checkable
class HasLocalPaths(Protocol):
    """An extra that a Store may offer; None means that the object has no file of its own here."""

    def local_path(self, path: str) -> str | None: ...


def local_path(store: Store, path: str) -> str | None:
    """The object's file if the store has one. What is read through it is not metered: tell the meter."""
    return store.local_path(path) if isinstance(store, HasLocalPaths) else None
