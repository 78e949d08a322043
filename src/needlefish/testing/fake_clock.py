"""A clock that a test owns: nothing waits, and time passes when somebody sleeps."""

from threading import Lock

_START_MS = 1_700_000_000_000


class FakeClock:
    """A Clock whose `sleep` advances it; `naps` are the waits that were asked for, in order."""

    def __init__(self, start_ms: int = _START_MS) -> None:
        self._start_ms = start_ms
        self._elapsed = 0.0
        self._lock = Lock()
        self.naps: list[float] = []

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.naps.append(seconds)
            self._elapsed += seconds

    def advance(self, seconds: float) -> None:
        """Lets time pass although nobody waits for it."""
        with self._lock:
            self._elapsed += seconds
