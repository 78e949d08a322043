"""Foreign errors become ours here and nowhere else: each by what the caller should do about it.

What is not recognised becomes UnavailableError, the only class that claims nothing about what happened.
"""

import errno
import re
from types import TracebackType

from obstore.exceptions import (
    AlreadyExistsError as ObstoreAlreadyExistsError,
)
from obstore.exceptions import (
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)

from needlefish.errors import AlreadyExistsError, InvalidError, NeedlefishError, NotFoundError, UnavailableError, UnsupportedError

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CAUSE = re.compile(r'(?:error|message): "([^"]+)"')
_LOCAL = re.compile(r"LocalFileSystem error: .*\(os error (\d+)\)", re.DOTALL)
# S3 answers 409 when two conditional writes overlap and it has not decided; the object may not exist even then.
# Azure's 409 is different: BlobAlreadyExists is its regular way of saying "exists".
_UNDECIDED = ("ConditionalRequestConflict", "OperationAborted")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
# Without any credentials obstore asks the instance metadata service, whose silence would be read as a broken store.
_METADATA_SERVICES = ("/latest/api/token", "169.254.169.254", "metadata.google.internal")
_CREDENTIALS = "check the credentials in the store's options or environment and what they may do at this place"

_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
_BAD_NAME = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}


def status_of(error: Exception) -> int | None:
    """The HTTP status inside an obstore error: obstore offers it as text alone."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def starts_past_end(error: Exception) -> bool:
    """Whether the backend refused a range because it starts at or past the end of the object."""
    return status_of(error) == 416 or "StartTooLarge" in str(error)


def from_os(error: OSError, place: str) -> NeedlefishError:
    """The errors of the local file system."""
    if error.errno in _MISSING:
        return NotFoundError(f"{place} does not exist")
    if error.errno == errno.EEXIST:
        return AlreadyExistsError(f"{place} exists already")
    if error.errno in _FORBIDDEN:
        return InvalidError(f"{place}: {error.strerror}; check the owner and mode of the directory, and that it is not mounted read-only")
    if error.errno in _BAD_NAME:
        return InvalidError(f"{place}: {error.strerror}; choose a shorter or plainer name")
    return UnavailableError(f"{place}: {error.strerror or error}")


def from_obstore(error: Exception, place: str) -> NeedlefishError:
    """The errors of obstore, which raises built-in ones for missing objects and malformed paths."""
    said = _words(error)
    if isinstance(error, FileNotFoundError):
        return _missing(place, said)
    if isinstance(error, ObstoreAlreadyExistsError):
        return _exists(place, said)
    if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
        return InvalidError(f"{place} was refused: {_CREDENTIALS}; the store said: {said}")
    if isinstance(error, InvalidPathError | UnknownConfigurationKeyError | ValueError):
        return InvalidError(f"{place}: {said}")
    if isinstance(error, NotSupportedError | NotImplementedError):
        return UnsupportedError(f"{place}: this store cannot do that: {said}")
    if local := _LOCAL.search(said):
        return from_os(OSError(int(local[1]), said), place)
    return _by_status(status_of(error), place, said)


def _missing(place: str, said: str) -> NeedlefishError:
    if any(code in said for code in _NO_BUCKET):
        return NotFoundError(f"{place}: the bucket itself does not exist; create it, or correct the URI")
    return NotFoundError(f"{place} does not exist")


def _exists(place: str, said: str) -> NeedlefishError:
    if any(code in said for code in _UNDECIDED):
        return UnavailableError(f"{place}: conditional writes overlapped and the store did not decide: {said}")
    return AlreadyExistsError(f"{place} exists already")


def _by_status(status: int | None, place: str, said: str) -> NeedlefishError:
    if status == 404:
        return _missing(place, said)
    # 408 and 429 ask for patience; the other 4xx would be answered the same for ever.
    if status is not None and 400 <= status < 500 and status not in (408, 429):
        return InvalidError(f"{place}: the store refused the request; check region, endpoint and options: {said}")
    if any(service in said for service in _METADATA_SERVICES):
        return UnavailableError(f"{place}: no credentials were given, and the machine's metadata service is silent; {_CREDENTIALS}: {said}")
    return UnavailableError(f"{place}: {said}")


def _words(error: Exception) -> str:
    """The message without the debug dump that obstore appends, but with the innermost cause, which only the dump has."""
    said, _, dump = str(error).partition("\n\nDebug source")
    causes = _CAUSE.findall(dump)
    return said.strip() if not causes or causes[-1] in said else f"{said.strip()} ({causes[-1]})"


class Translated:
    """`with Translated(place):` around calls of obstore; a class, since a generator would cost a microsecond more."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, NeedlefishError):
            raise from_obstore(error, self._place) from error
