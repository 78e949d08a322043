"""The files that `needlefish append` was given: patterns expanded, formats known, before Spark starts."""

import glob
import os
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from needlefish.errors import InvalidError, NotFoundError


class FileFormat(StrEnum):
    """What a file can be read as."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"


_ENDINGS = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
}
# Spark unpacks these by their ending.
_PACKED = re.compile(r"\.(gz|bz2|zst|lz4|snappy|deflate)\Z")


def expanded(given: Sequence[str]) -> list[str]:
    """Absolute paths: Spark's working directory is not ours. Addresses such as s3a:// are Spark's to resolve."""
    return list(dict.fromkeys(path for text in given for path in _expanded(text)))


def _expanded(text: str) -> list[str]:
    if "://" in text and not text.startswith("file://"):
        return [text]
    path = os.path.abspath(os.path.expanduser(text.removeprefix("file://")))
    # A file whose name merely looks like a pattern is meant itself.
    found = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
    if not found:
        raise NotFoundError(f"FILE {text!r} matches nothing; check the path")
    return found


def format_of(paths: Sequence[str], given: FileFormat | None) -> FileFormat:
    """The format that was asked for, or the one that every file's ending tells."""
    if given is not None:
        return given
    found = {_format(file): file for path in paths for file in _files(path)}
    if unknown := found.get(None):
        raise InvalidError(f"FILE {unknown!r} has none of the endings {', '.join(_ENDINGS)}; say what it is with --format")
    if not found:
        raise InvalidError(f"FILE {paths[0]!r} is a directory without files; give one that has some")
    if len(found) > 1:
        raise InvalidError(
            f"FILE names files of several kinds ({' and '.join(str(file) for file in found.values())}); append each kind by itself"
        )
    return next(kind for kind in found if kind is not None)


def _format(file: str) -> FileFormat | None:
    return _ENDINGS.get(os.path.splitext(_PACKED.sub("", file.lower()))[1])


def _files(path: str) -> Iterator[str]:
    """The file itself, or the files below a directory that Spark would read: those not hidden by `_` or `.`."""
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if not _is_hidden(name)]
        yield from (os.path.join(folder, name) for name in files if not _is_hidden(name))


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))
