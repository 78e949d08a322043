"""Clocks, ids, randomness and threads: the only file that may ask the machine for them.

Everything that waits, stamps or draws takes a `Runtime`, so that a test can own time and chance.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
    # What every id begins with: the attempt that makes the objects, so that others can tell whose they are.
    owner: str = ""
    # Without threads nothing happens beside the work: tests that own the order of all calls want that.
    threads: bool = True

    def new_id(self) -> str:
        """128 random bits: ids never carry a clock, since clocks of several writers do not agree."""
        return f"{self.owner}{self.chance.getrandbits(128):032x}"

    def new_owner(self) -> str:
        """An id short enough to begin others with."""
        return f"{self.chance.getrandbits(64):016x}"

    def owned(self, owner: str) -> "Runtime":
        """The same time and chance, with ids that begin with `owner`."""
        return replace(self, owner=owner)

    def ticker(self, interval_seconds: float, tick: Callable[[], None]) -> "Ticker":
        """Calls `tick` every so often beside the work, once it is started."""
        return Ticker(interval_seconds, tick, threads=self.threads)

    def jitter(self, seconds: float) -> float:
        """A wait between half and all of `seconds`, so that competing writers fall out of step."""
        return seconds * (0.5 + self.chance.random() / 2)


class Ticker:
    """A thread that calls `tick` every `interval_seconds` until it is stopped.

    A tick that takes longer than the interval is followed by the next at once. One that raises ends the thread; `failure` has what it raised.
    """

    def __init__(self, interval_seconds: float, tick: Callable[[], None], *, threads: bool = True) -> None:
        self._interval_seconds = interval_seconds
        self._tick = tick
        self._threads = threads
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Also again, after a failure."""
        self.failure = None
        if self._threads:
            self._thread = threading.Thread(target=self._run, name="needlefish-ticker", daemon=True)
            self._thread.start()

    @property
    def is_alive(self) -> bool:
        return not self._threads or (self._thread is not None and self._thread.is_alive())

    def stop(self) -> None:
        """Returns when no tick runs any more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic() + self._interval_seconds
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            due = max(due, time.monotonic()) + self._interval_seconds
            try:
                self._tick()
            # Whatever it is, the owner must hear of it: a thread that dies in silence is the worst of all.
            except BaseException as failure:  # noqa: BLE001
                self.failure = failure
                return


SYSTEM = Runtime()


@cache
def _readers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_READ_THREADS, thread_name_prefix=_READER_NAME)


def in_background(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Starts `work` in a reader thread; in the caller's if that is one already, since they are finite."""
    if not _is_reader():
        return _readers().submit(work, *args, **kwargs)
    done: Future[R] = Future()
    try:
        done.set_result(work(*args, **kwargs))
    except Exception as error:  # noqa: BLE001
        # Raised where the result is asked for, as from any other thread.
        done.set_exception(error)
    return done


def _is_reader() -> bool:
    return threading.current_thread().name.startswith(_READER_NAME)


def in_parallel(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Runs `work` on every item in reader threads and returns the results in order.

    A single item runs in the caller's thread: a hop to another one costs more than a warm local read. So does work that
    a reader thread hands out: were all of them to wait for a free one, none would ever be.
    """
    todo: Sequence[T] = list(items)
    if len(todo) <= 1 or _is_reader():
        return [work(item) for item in todo]
    return list(_readers().map(work, todo))
