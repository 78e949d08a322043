"""Keeps files in memory while they are asked for: a kernel may write off pages that nobody has touched for a minute.

With ten peers a table may wait longer than that for its turn, and then who reads most bytes would wait longest for the disk.
Pages that a process has mapped stay.
"""

import ctypes
import mmap
import os
from pathlib import Path
from types import TracebackType

# Inode, size and time of change: a file that was replaced is another one.
Mark = tuple[int, int, int]


class PageCache:
    """Holds every file of a folder, from `hold` to `hold`; `close` lets go of all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Where each file is mapped.
        self._held: dict[Mark, int] = {}

    def __enter__(self) -> "PageCache":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def held_bytes(self) -> int:
        return sum(size for _, size, _ in self._held)

    def hold(self) -> None:
        """Reads what is new in the folder, lets go of what is gone."""
        seen: dict[Mark, Path] = {}
        for path in self._folder.rglob("*"):
            stat = path.lstat() if path.is_file() and not path.is_symlink() else None
            if stat is not None and stat.st_size:
                seen[stat.st_ino, stat.st_size, stat.st_mtime_ns] = path
        for mark in self._held.keys() - seen.keys():
            self._let_go(mark)
        for mark in seen.keys() - self._held.keys():
            self._held[mark] = _mapped(seen[mark], mark[1])

    def close(self) -> None:
        for mark in list(self._held):
            self._let_go(mark)

    def _let_go(self, mark: Mark) -> None:
        _LIBC.munmap(self._held.pop(mark), mark[1])


# Not through Python's own module, which keeps a file open for as long as it is mapped: of so many a process may not have.
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


def _mapped(path: Path, size: int) -> int:
    handle = os.open(path, os.O_RDONLY)
    try:
        # Populated: every page is read and entered into the page table now.
        found = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED | mmap.MAP_POPULATE, handle, 0)
    finally:
        os.close(handle)
    if found == _FAILED:
        raise OSError(ctypes.get_errno(), f"cannot be mapped: {os.strerror(ctypes.get_errno())}", str(path))
    return int(found)
