"""Byte ranges that lie close together become one request, and its bytes are cut apart again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from needlefish.store.base import ByteRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which ranges to request, and in which of them each wanted span lies (-1: the span is empty, nothing to request)."""

    wanted: Sequence[ByteRange]
    requests: list[ByteRange]
    home: list[int]

    def cut(self, pieces: Sequence[bytes]) -> list[bytes]:
        """The wanted spans out of the requested bytes; an object that ends early shortens or empties them."""
        return [self._slice(span, home, pieces) for span, home in zip(self.wanted, self.home, strict=True)]

    def _slice(self, span: ByteRange, home: int, pieces: Sequence[bytes]) -> bytes:
        if home < 0:
            return b""
        start = span.start - self.requests[home].start
        return pieces[home][start : start + span.length]


def plan(wanted: Sequence[ByteRange], gap_bytes: int) -> Plan:
    """Joins spans that overlap or lie at most `gap_bytes` apart."""
    requests: list[ByteRange] = []
    home = [-1] * len(wanted)
    for index in sorted(range(len(wanted)), key=lambda at: wanted[at].start):
        span = wanted[index]
        if not span.length:
            continue
        if requests and span.start - requests[-1].end <= gap_bytes:
            requests[-1] = _join(requests[-1], span)
        else:
            requests.append(span)
        home[index] = len(requests) - 1
    return Plan(wanted=wanted, requests=requests, home=home)


def read_spans(wanted: Sequence[ByteRange], gap_bytes: int, read: Callable[[list[ByteRange]], Sequence[bytes]]) -> list[bytes]:
    """Plans, reads, cuts."""
    planned = plan(wanted, gap_bytes)
    return planned.cut(read(planned.requests) if planned.requests else [])


def _join(left: ByteRange, right: ByteRange) -> ByteRange:
    return ByteRange(left.start, max(left.end, right.end) - left.start)
