"""Asking work to stop: first it may finish the piece at hand; once patience is over, the piece is interrupted and undone.

Nothing here takes a lock, so that a signal handler may ask at any moment.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from needlefish.errors import FencedError
from needlefish.runtime import SYSTEM, Runtime

# How soon a wait or a piece of work hears of it.
_LOOK_SECONDS = 0.2


class Stop:
    """Asked once, work stops after the piece at hand or when `patience_seconds` are over; asked twice, at once."""

    def __init__(self, patience_seconds: float = 30.0, runtime: Runtime = SYSTEM) -> None:
        self._patience_seconds = patience_seconds
        self._runtime = runtime
        self._asked = 0
        self._since = 0.0

    def ask(self) -> None:
        if not self._asked:
            self._since = self._runtime.clock.monotonic()
        self._asked += 1

    @property
    def asked(self) -> bool:
        return self._asked > 0

    @property
    def is_overdue(self) -> bool:
        """No piece may go on."""
        return self._asked > 1 or (self.asked and self._runtime.clock.monotonic() - self._since >= self._patience_seconds)

    def wait(self, seconds: float) -> None:
        """Lets time pass, until it is over or somebody asks."""
        clock = self._runtime.clock
        until = clock.monotonic() + seconds
        while not self.asked and (left := until - clock.monotonic()) > 0:
            clock.sleep(min(left, _LOOK_SECONDS))

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Calls `interrupt`, again and again, while the body runs and no piece may go on: between two jobs it meets none."""

        def look() -> None:
            if self.is_overdue:
                interrupt()

        ticker = self._runtime.ticker(_LOOK_SECONDS, look)
        ticker.start()
        try:
            yield
        finally:
            ticker.stop()


class Interruption:
    """For a guarded store: the next operation of the thread that made this fails, once. What follows is the undoing, which must not
    fail as well; nor must a heartbeat, which would swallow it.
    """

    def __init__(self) -> None:
        self._wanted = self._met = False
        self._thread = threading.get_ident()

    def interrupt(self) -> None:
        self._wanted = True

    def guard(self) -> None:
        if self._wanted and not self._met and threading.get_ident() == self._thread:
            self._met = True
            raise FencedError("this work was asked to stop; nothing of it was committed")
