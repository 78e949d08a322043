"""Keeps files in memory while they are asked for: a kernel may write off pages that nobody has touched for a minute.

With ten peers a table may wait longer than that for its turn, and then who reads most bytes would wait longest for the disk.
Pages that a process has mapped stay.
"""

import mmap
import os
import resource
from pathlib import Path
from types import TracebackType


class PageCache:
    """Holds every file of a folder, from `hold` to `hold`; `close` lets go of all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Python keeps a file open for as long as it is mapped.
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        # By inode, size and time of change: a file that was replaced is another one.
        self._held: dict[tuple[int, int, int], mmap.mmap] = {}

    def __enter__(self) -> "PageCache":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def held_bytes(self) -> int:
        return sum(map(len, self._held.values()))

    def hold(self) -> None:
        """Reads what is new in the folder, lets go of what is gone."""
        seen: dict[tuple[int, int, int], Path] = {}
        for path in self._folder.rglob("*"):
            stat = path.lstat() if path.is_file() and not path.is_symlink() else None
            if stat is not None and stat.st_size:
                seen[stat.st_ino, stat.st_size, stat.st_mtime_ns] = path
        for gone in self._held.keys() - seen.keys():
            self._held.pop(gone).close()
        for mark in seen.keys() - self._held.keys():
            self._held[mark] = _mapped(seen[mark], mark[1])

    def close(self) -> None:
        for mapped in self._held.values():
            mapped.close()
        self._held.clear()


def _mapped(path: Path, size: int) -> mmap.mmap:
    handle = os.open(path, os.O_RDONLY)
    try:
        # Populated: every page is read and entered into the page table now.
        return mmap.mmap(handle, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)
    finally:
        os.close(handle)
