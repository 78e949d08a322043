"""Needlefish finds the needle in a data lake: a keyed table kept as plain Parquet on any object store."""

from needlefish.api import Found, PointIndex, Scan, Table, pack, register, ship, spark_session
from needlefish.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    CorruptError,
    FencedError,
    InvalidError,
    JobFailedError,
    NeedlefishError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from needlefish.version import __version__

__all__ = [
    "AlreadyExistsError",
    "CommitUnknownError",
    "ConflictError",
    "CorruptError",
    "FencedError",
    "Found",
    "InvalidError",
    "JobFailedError",
    "NeedlefishError",
    "NotFoundError",
    "PointIndex",
    "Scan",
    "Table",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "pack",
    "register",
    "ship",
    "spark_session",
]
