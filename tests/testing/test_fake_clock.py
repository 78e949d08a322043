"""The fake clock moves when it is told to."""

from needlefish.runtime import Clock
from needlefish.testing.fake_clock import FakeClock


def test_sleeping_passes_the_time_and_is_remembered() -> None:
    clock: Clock = FakeClock(start_ms=1_000)
    clock.sleep(2.5)
    clock.sleep(0.25)
    assert (clock.now_ms(), clock.monotonic()) == (3_750, 2.75)


def test_advancing_is_no_nap() -> None:
    clock = FakeClock(start_ms=0)
    clock.advance(60)
    assert (clock.now_ms(), clock.naps) == (60_000, [])
