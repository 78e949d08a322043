"""Walks a local folder in byte order of full paths, reading only folders that can hold what is asked for."""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from needlefish.store.base import ObjectInfo
from needlefish.store.paths import is_staged, may_begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What to visit: names under `root` that begin with `prefix` and come after `start_after`."""

    root: str
    prefix: str
    start_after: str

    def objects(self) -> Iterator[ObjectInfo]:
        return self._folder("")

    def _folder(self, folder: str) -> Iterator[ObjectInfo]:
        for key in self._keys(folder):
            if key.endswith("/"):
                yield from self._folder(key)
            elif (info := describe(os.path.join(self.root, key), key)) is not None:
                yield info

    def _keys(self, folder: str) -> list[str]:
        """The wanted entries of a folder; a sub-folder sorts with its slash, as the paths below it do (`a-b` < `a/c` < `a0`)."""
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                keys = [folder + entry.name + ("/" if entry.is_dir() else "") for entry in self._behind(folder, entries)]
        except (FileNotFoundError, NotADirectoryError):
            # A folder that a cleaner removed, or a root that no put has made yet, holds nothing.
            return []
        return sorted(key for key in keys if self._wanted(key))

    def _behind(self, folder: str, entries: Iterable["os.DirEntry[str]"]) -> Iterator["os.DirEntry[str]"]:
        """Leaves out early what is surely before `start_after`: of a long log only the tail is looked at closely."""
        bound = self.start_after[len(folder) :].partition("/")[0] if self.start_after.startswith(folder) else ""
        return (entry for entry in entries if (entry.name >= bound or bound.startswith(entry.name)) and not is_staged(entry.name))

    def _wanted(self, key: str) -> bool:
        if key.endswith("/"):
            return may_begin(key, self.prefix) and (key > self.start_after or self.start_after.startswith(key))
        return key.startswith(self.prefix) and key > self.start_after


def describe(full: str, path: str) -> ObjectInfo | None:
    """An object's size and time; None if it is gone or no regular file."""
    try:
        found = os.stat(full)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return ObjectInfo(path=path, size=found.st_size, modified_ms=found.st_mtime_ns // 1_000_000)
