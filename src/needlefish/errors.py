"""Every error a caller can see, named by what the caller should do about it.

NeedlefishError
├── ConflictError        somebody committed first: refresh and retry
├── CommitUnknownError   the store did not say whether the commit landed: read back before retrying
├── FencedError          the claim was lost to another worker: stop
├── UnavailableError     the store is slow, throttled or away: back off and retry
├── NotFoundError        the table, version or object does not exist
├── AlreadyExistsError   it does exist
├── InvalidError         the call is wrong: fix the argument (also a ValueError)
├── UnsupportedError     written by a newer format, or not offered here: upgrade
├── CorruptError         bytes are damaged: do not retry; verify and rebuild
└── JobFailedError       code that ran inside Spark failed: read the cause it names
"""

from typing import ClassVar


class NeedlefishError(Exception):
    """The base of all. `exit_code` is what the command line exits with."""

    exit_code: ClassVar[int] = 1


class InvalidError(NeedlefishError, ValueError):
    """The call is wrong; the message names the argument, the value and the remedy."""

    # Typer exits with 2 for a wrong argument as well.
    exit_code = 2


class NotFoundError(NeedlefishError):
    """The table, version or object does not exist."""

    exit_code = 3


class AlreadyExistsError(NeedlefishError):
    """What was to be made exists already."""

    exit_code = 4


class ConflictError(NeedlefishError):
    """Another writer committed something that this commit cannot stand on: refresh and retry."""

    exit_code = 5


class CommitUnknownError(NeedlefishError):
    """The commit may or may not have landed: read the log back before retrying."""

    exit_code = 6


class FencedError(NeedlefishError):
    """Another worker holds the claim now: stop."""

    exit_code = 7


class UnavailableError(NeedlefishError):
    """The store did not answer in time or refused for now: back off and retry."""

    exit_code = 8


class UnsupportedError(NeedlefishError):
    """A newer format, or a feature this installation does not have."""

    exit_code = 9


class CorruptError(NeedlefishError):
    """Stored bytes are damaged; the message names the object."""

    exit_code = 10


class JobFailedError(NeedlefishError):
    """Code that ran inside a Spark task failed; the message carries its own words, not the JVM's."""

    exit_code = 11


# Errors travel between processes (Spark tasks, workers) by the name of their class.
BY_NAME: dict[str, type[NeedlefishError]] = {
    kind.__name__: kind
    for kind in (
        InvalidError,
        NotFoundError,
        AlreadyExistsError,
        ConflictError,
        CommitUnknownError,
        FencedError,
        UnavailableError,
        UnsupportedError,
        CorruptError,
        JobFailedError,
    )
}
