"""Stores with a time of their own: what was put grows old when the test says so, whatever the machine's clock does."""

from pathlib import Path

import pytest

from needlefish.store import Store, local_path
from needlefish.store.local import LocalStore
from needlefish.store.meter import Kind
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.memory_store import MemoryStore
from needlefish.testing.scheduled_store import ScheduledClock, ScheduledStore
from needlefish.testing.store_contract import StoreContract
from needlefish.testing.timed_store import TimedStore


class Free:
    """Turns that anybody may take at any time."""

    def __init__(self) -> None:
        self.slept: list[tuple[int, float]] = []

    def arrive(self, number: int, kind: Kind, *paths: str) -> None:
        return None

    def sleep(self, number: int, seconds: float) -> None:
        self.slept.append((number, seconds))


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore()


class TestTimedStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return TimedStore(LocalStore(str(tmp_path)), FakeClock())


class TestScheduledStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return ScheduledStore(MemoryStore(), 0, Free())


def _times(store: Store) -> dict[str, int]:
    listed = {info.path: info.modified_ms for info in store.list()}
    assert listed == {path: store.head(path).modified_ms for path in listed}
    return listed


@pytest.mark.parametrize("kind", ["memory", "timed"])
def test_times_are_those_of_the_clock_at_the_put(tmp_path: Path, kind: str) -> None:
    clock = FakeClock(start_ms=1_000)
    store: Store = MemoryStore(clock) if kind == "memory" else TimedStore(LocalStore(str(tmp_path)), clock)
    store.put("heartbeats/a", b"")
    store.put_if_absent("log/0", b"")
    clock.advance(60)
    store.put("heartbeats/b", b"")
    assert _times(store) == {"heartbeats/a": 1_000, "heartbeats/b": 61_000, "log/0": 1_000}
    clock.advance(60)
    store.put("heartbeats/a", b"")
    store.delete(["log/0"])
    store.put_if_absent("log/0", b"")
    assert _times(store) == {"heartbeats/a": 121_000, "heartbeats/b": 61_000, "log/0": 121_000}


def test_what_was_there_before_is_as_old_as_the_wrapper(tmp_path: Path) -> None:
    inner = LocalStore(str(tmp_path))
    inner.put("old", b"")
    clock = FakeClock(start_ms=5_000)
    store = TimedStore(inner, clock)
    clock.advance(1)
    assert _times(store) == {"old": 5_000}
    assert local_path(inner, "old") is not None
    assert local_path(store, "old") is None


def test_copies_are_apart_from_then_on() -> None:
    first = MemoryStore(FakeClock(start_ms=1_000))
    first.put("a", b"old")
    first.put("gone", b"")
    later = FakeClock(start_ms=9_000)
    second = first.copy(later)
    second.put("a", b"new")
    second.delete(["gone"])
    second.put("b", b"")
    assert (first.snapshot(), _times(first)) == ({"a": b"old", "gone": b""}, {"a": 1_000, "gone": 1_000})
    assert (second.snapshot(), _times(second)) == ({"a": b"new", "b": b""}, {"a": 9_000, "b": 9_000})
    assert _times(first.copy(later))["a"] == 1_000


def test_a_worker_may_be_wrong_about_the_time() -> None:
    turns, world = Free(), FakeClock(start_ms=1_000)
    clock = ScheduledClock(world, 3, turns)
    fast, slow = clock.ahead(3600), clock.ahead(-0.5)
    clock.sleep(2)
    assert turns.slept == [(3, 2)]
    world.advance(1)
    assert [found.now_ms() for found in (clock, fast, slow)] == [2_000, 3_602_000, 1_500]
    assert [found.monotonic() for found in (clock, fast, slow)] == [1.0] * 3
