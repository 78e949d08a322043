"""Counts requests and bytes by kind of operation; a find's receipt is the difference of two snapshots."""

from dataclasses import dataclass, fields
from threading import Lock
from typing import Literal, Self

Kind = Literal["get", "get_range", "head", "list", "put", "put_if_absent", "delete"]
KINDS: tuple[Kind, ...] = ("get", "get_range", "head", "list", "put", "put_if_absent", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Requests of one kind and the bytes of objects they moved, headers and listings left out."""

    requests: int = 0
    bytes: int = 0

    def __add__(self, other: Self) -> "Traffic":
        return Traffic(requests=self.requests + other.requests, bytes=self.bytes + other.bytes)

    def __sub__(self, other: Self) -> "Traffic":
        return Traffic(requests=self.requests - other.requests, bytes=self.bytes - other.bytes)


_NONE = Traffic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a store was asked for, by kind of operation. Failed attempts count too: a store bills them."""

    get: Traffic = _NONE
    get_range: Traffic = _NONE
    head: Traffic = _NONE
    list: Traffic = _NONE
    put: Traffic = _NONE
    put_if_absent: Traffic = _NONE
    delete: Traffic = _NONE

    @property
    def requests(self) -> int:
        return sum(self.of(kind).requests for kind in KINDS)

    @property
    def bytes_read(self) -> int:
        return self.get.bytes + self.get_range.bytes

    @property
    def bytes_written(self) -> int:
        return self.put.bytes + self.put_if_absent.bytes

    def of(self, kind: Kind) -> Traffic:
        traffic: Traffic = getattr(self, kind)
        return traffic

    def __add__(self, other: Self) -> "Usage":
        if other == _NOTHING or self == _NOTHING:
            return self if other == _NOTHING else other
        return Usage(**{kind: self.of(kind) + other.of(kind) for kind in KINDS})

    def __sub__(self, other: Self) -> "Usage":
        # Most kinds are the same object in both: a find's receipt is made of such differences, and few kinds move at all.
        changed = {kind: mine - theirs for kind in KINDS if (mine := self.of(kind)) is not (theirs := other.of(kind))}
        return Usage(**changed) if changed else _NOTHING


_NOTHING = Usage()

assert tuple(field.name for field in fields(Usage)) == KINDS


class Meter:
    """Many threads add, any thread takes snapshots. One addition takes a quarter of a microsecond."""

    __slots__ = ("_counts", "_last", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        # Of the kinds that were asked for at all.
        self._counts: dict[Kind, list[int]] = {}
        # The last snapshot, until something is added.
        self._last: Usage | None = _NOTHING

    def add(self, kind: Kind, requests: int, nbytes: int) -> None:
        """Also for bytes that a caller reads past the store, such as through a memory map."""
        with self._lock:
            count = self._counts.setdefault(kind, [0, 0])
            count[0] += requests
            count[1] += nbytes
            self._last = None

    def snapshot(self) -> Usage:
        with self._lock:
            if self._last is None:
                self._last = Usage(**{kind: Traffic(requests=count[0], bytes=count[1]) for kind, count in self._counts.items()})
            return self._last
