"""Listing by any beginning of a path, on backends that only list folders.

obstore ends every prefix with a slash; so the folder above is listed from just before the prefix to just behind it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from needlefish.store.base import ObjectInfo
from needlefish.store.paths import is_path

_LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is wanted below `base`: paths that begin with `prefix` and come after `start_after`."""

    base: str
    prefix: str
    start_after: str | None

    @property
    def folder(self) -> str | None:
        """The folder to list, as a key of the backend; None for all of it."""
        return (self.base + self.prefix).rpartition("/")[0] or None

    @property
    def offset(self) -> str | None:
        """A key that everything wanted comes after, as near as one can be named."""
        latest = max(_just_before(self.prefix), self.start_after or "")
        return self.base + latest if is_path(latest) else None

    def select(self, listed: Iterable[ObjectInfo], *, ordered: bool) -> Iterator[ObjectInfo]:
        """The wanted ones in order; a backend in order is left as soon as it is past them."""
        if ordered:
            return self._until_past(listed)
        return iter(sorted(filter(self._wants, listed), key=attrgetter("path")))

    def _until_past(self, listed: Iterable[ObjectInfo]) -> Iterator[ObjectInfo]:
        for info in listed:
            if self._wants(info):
                yield info
            elif info.path > self.prefix and not info.path.startswith(self.prefix):
                return

    def _wants(self, info: ObjectInfo) -> bool:
        return info.path.startswith(self.prefix) and info.path > (self.start_after or "")


def _just_before(prefix: str) -> str:
    """The highest name below all that begin with `prefix`; the folder itself bounds a prefix that ends in a slash."""
    if not prefix or prefix.endswith("/"):
        return ""
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + _LAST_CHARACTER
