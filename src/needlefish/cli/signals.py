"""SIGTERM and SIGINT as a request to stop in good order."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from needlefish.services.stopping import Stop

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The first asks, the second hurries; who signals once more does not want to wait for anything.
_MOST = 2


class Signals:
    """Handlers for as long as a loop runs. Spark puts its own in the way when it starts, so that ours are put again after."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._count = 0

    @contextmanager
    def handled(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.install()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def install(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._asked)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > _MOST:
            raise KeyboardInterrupt
        self._stop.ask()
