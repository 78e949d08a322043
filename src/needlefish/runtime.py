"""Clocks, ids, randomness and threads: the only file that may ask the machine for them.

Everything that waits, stamps or draws takes a `Runtime`, so that a test can own time and chance.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import ParamSpec, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")

# Range requests to an object store overlap well; the work between them is small.
_READ_THREADS = 16
_READER_NAME = "needlefish-read"


class Clock(Protocol):
    """Wall time for stamps, monotonic time for durations, and waiting."""

    def now_ms(self) -> int: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One source of time and chance, handed down from the public call."""

    clock: Clock = field(default_factory=SystemClock)
    chance: random.Random = field(default_factory=random.SystemRandom)

    def new_id(self) -> str:
        """128 random bits: ids never carry a clock, since clocks of several writers do not agree."""
        return f"{self.chance.getrandbits(128):032x}"

    def jitter(self, seconds: float) -> float:
        """A wait between half and all of `seconds`, so that competing writers fall out of step."""
        return seconds * (0.5 + self.chance.random() / 2)


SYSTEM = Runtime()


@cache
def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_READ_THREADS, thread_name_prefix=_READER_NAME)


def in_background(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Starts `work` in a reader thread. The work must not itself wait for reader threads: they are finite."""
    return _readers().submit(work, *args, **kwargs)


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Runs `work` on every item in reader threads and returns the results in order.

    A single item runs in the caller's thread: a hop to another one costs more than a warm local read. So does work that
    a reader thread hands out: were all of them to wait for a free one, none would ever be.
    """
    todo: Sequence[T] = list(items)
    if len(todo) <= 1 or threading.current_thread().name.startswith(_READER_NAME):
        return [work(item) for item in todo]
    return list(_readers().map(work, todo))
