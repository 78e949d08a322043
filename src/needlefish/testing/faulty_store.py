"""A store that fails on purpose, the same way each time: wrap any Store and say which call meets which fault.

Put it below the layers (`layered(FaultyStore(...), config=...)`) to test that retries cope, or use it bare to test a caller.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from threading import Lock
from typing import Never, TypeVar

from needlefish.errors import UnavailableError
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store.base import ByteRange, ObjectInfo, Store
from needlefish.store.meter import Kind

R = TypeVar("R")


class Fault(StrEnum):
    """What can go wrong. A fault that does not fit the call (a torn put) leaves it alone."""

    LOST_RESPONSE = "done, but UnavailableError is raised"
    UNAVAILABLE = "503: not done, UnavailableError is raised"
    SLOW = "done after a wait on the runtime's clock"
    TORN_READ = "the first half of the bytes arrives as if it were all"
    FLIPPED_READ = "all bytes arrive, one bit in the middle flipped"
    STALE_LIST = "the newest object is missing from the listing"
    CRASH_BEFORE = "the process dies before the call reaches the store"
    CRASH_AFTER = "the process dies after the call was done"


class SimulatedCrash(BaseException):
    """The process is dead. No Exception, so that no handler revives it; every later call on the store raises it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operation as it arrives; numbers count from 1 over the whole store. A deletion goes by its first path."""

    number: int
    kind: Kind
    path: str


Schedule = Callable[[Call], Fault | None]


def no_faults(call: Call) -> Fault | None:
    return None


def at(faults: Mapping[int, Fault]) -> Schedule:
    """By the number of the call."""
    return lambda call: faults.get(call.number)


def on(kind: Kind, faults: Iterable[Fault | None]) -> Schedule:
    """The next calls of one kind meet these faults in turn; then all is well."""
    script, lock = iter(faults), Lock()

    def schedule(call: Call) -> Fault | None:
        with lock:
            return next(script, None) if call.kind == kind else None

    return schedule


def seeded(seed: int, rates: Mapping[Fault, float]) -> Schedule:
    """Each call draws from its own number and the seed, so that threads in another order do not change the draw."""

    def schedule(call: Call) -> Fault | None:
        draw = int.from_bytes(hashlib.blake2b(f"{seed}:{call.number}".encode(), digest_size=8).digest()) / 2**64
        for fault, rate in rates.items():
            if draw < rate:
                return fault
            draw -= rate
        return None

    return schedule


class FaultyStore:
    """A Store over another. It has no local paths, so that no read gets around the faults."""

    def __init__(self, inner: Store, schedule: Schedule = no_faults, runtime: Runtime = SYSTEM, slow_seconds: float = 1.0) -> None:
        self._inner = inner
        self._schedule = schedule
        self._runtime = runtime
        self._slow_seconds = slow_seconds
        self._lock = Lock()
        self._dead = False
        self.calls: list[Call] = []
        self.injected: list[tuple[Call, Fault]] = []

    @property
    def uri(self) -> str:
        return self._inner.uri

    def get(self, path: str) -> bytes:
        return self._meet("get", path, lambda: self._inner.get(path), _damaged)

    def get_range(self, path: str, span: ByteRange) -> bytes:
        return self._meet("get_range", path, lambda: self._inner.get_range(path, span), _damaged)

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        return self._meet("get_range", path, lambda: self._inner.get_ranges(path, spans), _damaged_last)

    def head(self, path: str) -> ObjectInfo:
        return self._meet("head", path, lambda: self._inner.head(path))

    def put(self, path: str, data: bytes) -> None:
        self._meet("put", path, lambda: self._inner.put(path, data))

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._meet("put_if_absent", path, lambda: self._inner.put_if_absent(path, data))

    def delete(self, paths: Iterable[str]) -> None:
        keys = list(paths)
        self._meet("delete", keys[0] if keys else "", lambda: self._inner.delete(keys))

    def _meet(self, kind: Kind, path: str, operation: Callable[[], R], damage: Callable[[R, Fault], R] | None = None) -> R:
        call, fault = self._arrive(kind, path)
        if fault is Fault.CRASH_BEFORE:
            self._die(call)
        if fault is Fault.UNAVAILABLE:
            raise UnavailableError(f"{call}: {fault}")
        if fault is Fault.SLOW:
            self._runtime.clock.sleep(self._slow_seconds)
        done = self._perform(call, fault, operation)
        return done if fault is None or damage is None else damage(done, fault)

    def _perform(self, call: Call, fault: Fault | None, operation: Callable[[], R]) -> R:
        try:
            return operation()
        finally:
            # Also when the store refused: a refusal is a response too, and gets lost like any other.
            if fault is Fault.CRASH_AFTER:
                self._die(call)
            if fault is Fault.LOST_RESPONSE:
                raise UnavailableError(f"{call}: {fault}")

    def _arrive(self, kind: Kind, path: str) -> tuple[Call, Fault | None]:
        with self._lock:
            if self._dead:
                raise SimulatedCrash("the process died at an earlier call")
            call = Call(number=len(self.calls) + 1, kind=kind, path=path)
            self.calls.append(call)
        fault = self._schedule(call)
        if fault is not None:
            self.injected.append((call, fault))
        return call, fault

    def _die(self, call: Call) -> Never:
        self._dead = True
        raise SimulatedCrash(f"the process died at {call}")

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        yield from self._meet("list", prefix, lambda: tuple(self._inner.list(prefix, start_after)), _stale)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPoint:
    """Where the work died, and the store as it left it."""

    number: int
    fault: Fault
    store: Store


def crash_everywhere(make: Callable[[], Store], work: Callable[[Store], object]) -> Iterator[CrashPoint]:
    """Runs `work` on a fresh store for every call it makes, dying before and after that call, until it gets through."""
    for number in count(1):
        for fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            fresh = make()
            try:
                work(FaultyStore(fresh, at({number: fault})))
            except SimulatedCrash:
                yield CrashPoint(number=number, fault=fault, store=fresh)
            else:
                return


def _damaged(data: bytes, fault: Fault) -> bytes:
    middle = len(data) // 2
    if fault is Fault.TORN_READ:
        return data[:middle]
    if fault is Fault.FLIPPED_READ and data:
        return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    return data


def _damaged_last(pieces: list[bytes], fault: Fault) -> list[bytes]:
    return [*pieces[:-1], _damaged(pieces[-1], fault)] if pieces else pieces


def _stale(listed: tuple[ObjectInfo, ...], fault: Fault) -> tuple[ObjectInfo, ...]:
    if fault is not Fault.STALE_LIST or not listed:
        return listed
    newest = max(listed, key=lambda info: (info.modified_ms, info.path))
    return tuple(info for info in listed if info is not newest)
