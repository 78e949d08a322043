"""Bytes on a local disk: what a folder holds, and what was written to it between two looks."""

import os
from pathlib import Path

# Inode, size and time of change of each file.
Look = dict[str, tuple[int, int, int]]


def snapshot(folder: Path) -> Look:
    """Files with another name elsewhere are left out: they were linked here, not written."""
    return {path: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in _files(folder) if stat.st_nlink == 1}


def written_bytes(before: Look, after: Look) -> int:
    """The sizes of files that are new or changed; what came and went between the looks is not seen."""
    return sum(seen[1] for path, seen in after.items() if before.get(path) != seen)


def kept_bytes(folder: Path) -> int:
    return sum(stat.st_size for _, stat in _files(folder))


def _files(folder: Path) -> list[tuple[str, os.stat_result]]:
    return [(str(path), path.stat()) for path in folder.rglob("*") if path.is_file()]
