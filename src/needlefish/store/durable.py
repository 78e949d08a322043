"""Local writes that survive power loss: stage, sync the bytes, give them their name, sync the name.

Bytes are durable before the name exists, so a name never leads to torn bytes, whenever the power goes; why obstore's
own local writes cannot promise that is in docs/decisions/0201-local-writes.md.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress

from needlefish.runtime import Runtime
from needlefish.store.paths import is_staged

# Both ways to write have this shape.
Write = Callable[[str, bytes, Runtime], None]

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_STAGING_BITS = 48


def create(target: str, data: bytes, runtime: Runtime) -> None:
    """Writes `target` unless it exists (FileExistsError): a hard link is the file system's own put-if-absent."""
    # Whoever comes late learns it in a microsecond, and catches up with the winner, instead of staging bytes in vain.
    _refuse_existing(target)
    _write(target, data, runtime, _link)


def replace(target: str, data: bytes, runtime: Runtime) -> None:
    """Writes `target`, over whatever was there; readers see the old bytes or the new ones."""
    _write(target, data, runtime, os.replace)


def sweep(root: str, before_ms: int) -> int:
    """Removes staged files older than `before_ms` that killed writers left, and says how many."""
    stale = [path for path in _staged_files(root) if _older(path, before_ms)]
    for path in stale:
        with suppress(FileNotFoundError):
            os.unlink(path)
    return len(stale)


def _write(target: str, data: bytes, runtime: Runtime, name: Callable[[str, str], None]) -> None:
    folder = os.path.dirname(target)
    # A crash from here on leaves a staged file, which no listing shows and `sweep` removes.
    staged = _stage(target, data, folder, runtime)
    try:
        name(staged, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(staged)
        raise
    # A crash here leaves the object visible but its name possibly not yet durable: the caller was told nothing.
    sync_folder(folder)


def _link(staged: str, target: str) -> None:
    try:
        os.link(staged, target)
    except FileExistsError:
        _refuse_existing(target)
        raise
    # A crash here leaves both names for one file; the object is whole, and `sweep` removes the other name.
    os.unlink(staged)


def _refuse_existing(target: str) -> None:
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", target)
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, "File exists", target)


def _stage(target: str, data: bytes, folder: str, runtime: Runtime) -> str:
    staged, handle = _open_staged(target, folder, runtime)
    try:
        _write_all(handle, data)
        os.fsync(handle)
    except BaseException:
        os.unlink(staged)
        raise
    finally:
        os.close(handle)
    return staged


def _open_staged(target: str, folder: str, runtime: Runtime) -> tuple[str, int]:
    number = runtime.chance.getrandbits(_STAGING_BITS)
    while True:
        staged = f"{target}#{number}"
        try:
            return staged, os.open(staged, _NEW_FILE, 0o666)
        except FileNotFoundError:
            # A file in the folder's place makes the next open fail with NotADirectoryError.
            make_folder(folder)
        except FileExistsError:
            # Two writers with the same seed: count on, since chance would repeat itself.
            number += 1


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    # One call writes at most 2 GiB.
    while rest:
        rest = rest[os.write(handle, rest) :]


def make_folder(folder: str) -> None:
    """Creates a folder and its missing parents, each of them durable before anything is put inside."""
    parent = os.path.dirname(folder)
    if not os.path.exists(parent):
        make_folder(parent)
    with suppress(FileExistsError):
        os.mkdir(folder)
    # Also when another writer made it: that one may not have come to its own sync yet.
    sync_folder(parent)


def sync_folder(folder: str) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _staged_files(root: str) -> list[str]:
    return [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if is_staged(name)]


def _older(path: str, before_ms: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns < before_ms * 1_000_000
    except FileNotFoundError:
        return False
