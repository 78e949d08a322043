"""The seam: what every store does, and what its callers may rely on.

Paths are relative to the root of the store, `/`-separated, without a leading slash.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """What a store knows of an object without reading it; `modified_ms` is the store's own clock."""

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class ByteRange:
    """`length` bytes from `start`; both count from the beginning of the object."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


@runtime_checkable
class Store(Protocol):
    """Bytes by name. The contract, which `testing.store_contract` checks:

    1. `put` and `put_if_absent` are atomic: a reader sees the whole object or none of it.
    2. Of several `put_if_absent` to one path exactly one succeeds; the others raise AlreadyExistsError.
    3. A read after a successful put sees it.
    4. A range past the end is cut at the end; one that starts at or past the end is empty.
    5. `list` yields every object under a prefix in byte order of its path; `start_after` is exclusive.
    6. Reading a missing object raises NotFoundError; deleting one is not an error.
    7. UnavailableError means that the operation may or may not have happened.
    """

    @property
    def uri(self) -> str: ...

    def get(self, path: str) -> bytes: ...

    def get_range(self, path: str, span: ByteRange) -> bytes: ...

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]: ...

    def head(self, path: str) -> ObjectInfo: ...

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]: ...

    def put(self, path: str, data: bytes) -> None: ...

    def put_if_absent(self, path: str, data: bytes) -> None: ...

    def delete(self, paths: Iterable[str]) -> None: ...
