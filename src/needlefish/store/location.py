"""What a URI means: which backend, which bucket, which prefix below it."""

import os
import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from needlefish.errors import InvalidError

Backend = Literal["local", "memory", "s3", "gs", "az"]

_SCHEME = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*)://(.*)\Z", re.DOTALL)
_BACKENDS: dict[str, Backend] = {"memory": "memory", "s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
_KNOWN = "a local path, file://, s3://, gs://, az:// (or abfss://) or memory://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """`container` is the bucket, the Azure container, the name of a memory store, or the absolute local path."""

    backend: Backend
    uri: str
    container: str
    prefix: str = ""
    account: str | None = None


def locate(uri: str) -> Location:
    """Reads a URI. A relative path is resolved now, since a Spark task has another working directory."""
    if not uri.strip():
        raise InvalidError(f"uri={uri!r} is empty: give {_KNOWN}")
    found = _SCHEME.match(uri)
    if found is None:
        return _local(os.path.expanduser(uri))
    scheme, rest = found[1].lower(), found[2]
    if scheme == "file":
        return _file(uri, rest)
    if scheme not in _BACKENDS:
        raise InvalidError(f"uri={uri!r}: no store is known for {scheme}://; use {_KNOWN}")
    return _remote(uri, _BACKENDS[scheme], scheme, rest)


def _local(path: str) -> Location:
    full = os.path.abspath(path)
    return Location(backend="local", uri=full, container=full)


def _file(uri: str, rest: str) -> Location:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise InvalidError(f"uri={uri!r} has no absolute path: write three slashes, as in file:///data/table")
    return _local("/" + unquote(path))


def _remote(uri: str, backend: Backend, scheme: str, rest: str) -> Location:
    authority, _, path = rest.partition("/")
    container, _, host = authority.partition("@")
    if not container:
        raise InvalidError(f"uri={uri!r} names no bucket: write {scheme}://<bucket>/<path>")
    prefix = path.strip("/")
    if "//" in prefix or {".", ".."} & set(prefix.split("/")):
        raise InvalidError(f"uri={uri!r}: leave out empty segments, '.' and '..'")
    # abfss://container@account.dfs.core.windows.net/path names the account in the host.
    account = host.partition(".")[0] or None
    return Location(backend=backend, uri=uri.rstrip("/"), container=container, prefix=prefix, account=account)
