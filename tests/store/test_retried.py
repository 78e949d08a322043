"""Patience: which failures are tried again, how long between, and what the meter sees of it."""

import random
from collections.abc import Callable, Iterator

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import AlreadyExistsError, NotFoundError, UnavailableError
from needlefish.runtime import Runtime
from needlefish.store import ByteRange, ObjectInfo, RetriedStore, Store, layered, open_store
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Fault, FaultyStore, Schedule, at, on, seeded

_ALWAYS = dict.fromkeys(range(1, 100), Fault.UNAVAILABLE)
_OPERATIONS: dict[str, tuple[Callable[[Store], object], object]] = {
    "get": (lambda store: store.get("log/1"), b"1"),
    "get_range": (lambda store: store.get_range("log/1", ByteRange(0, 1)), b"1"),
    "get_ranges": (lambda store: store.get_ranges("log/1", [ByteRange(0, 1)]), [b"1"]),
    "head": (lambda store: store.head("log/1").size, 1),
    "put": (lambda store: store.put("log/1", b"new"), None),
    "put_if_absent": (lambda store: store.put_if_absent("log/new", b"x"), None),
    # An iterator can be read once; every attempt must see all of it.
    "delete": (lambda store: store.delete(iter(["log/1"])), None),
    "list": (lambda store: [info.path for info in store.list("log/8")], ["log/8"]),
}


@pytest.fixture
def inner(fresh_name: str) -> Store:
    store = open_store(StoreConfig(uri=f"memory://{fresh_name}"))
    for number in range(10):
        store.put(f"log/{number}", b"%d" % number)
    return store


def _over(inner: Store, schedule: Schedule, clock: FakeClock | None = None, retry: RetryPolicy | None = None) -> RetriedStore:
    runtime = Runtime(clock=clock or FakeClock(), chance=random.Random(3))
    config = StoreConfig(uri=inner.uri, retry=retry or RetryPolicy())
    return layered(FaultyStore(inner, schedule, runtime), config=config, runtime=runtime)


def test_waits_double_with_jitter_up_to_the_cap(inner: Store) -> None:
    clock = FakeClock()
    store = _over(inner, at(_ALWAYS), clock, RetryPolicy(attempts=7, base_seconds=0.1, cap_seconds=1.0))
    with pytest.raises(UnavailableError):
        store.get("log/1")
    ceilings = [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert len(clock.naps) == len(ceilings)
    assert all(ceiling / 2 <= nap <= ceiling for nap, ceiling in zip(clock.naps, ceilings, strict=True))
    assert store.meter.snapshot().get.requests == 7


def test_success_ends_the_waiting(inner: Store) -> None:
    clock = FakeClock()
    store = _over(inner, at({1: Fault.UNAVAILABLE, 2: Fault.LOST_RESPONSE}), clock)
    assert store.get("log/4") == b"4"
    assert len(clock.naps) == 2


@pytest.mark.parametrize("operation", _OPERATIONS)
def test_every_operation_is_patient(inner: Store, operation: str) -> None:
    call, expected = _OPERATIONS[operation]
    store = _over(inner, at({1: Fault.UNAVAILABLE, 2: Fault.UNAVAILABLE}))
    assert call(store) == expected
    assert store.meter.snapshot().requests == 3


def test_a_refusal_is_final(inner: Store) -> None:
    clock = FakeClock()
    store = _over(inner, at({}), clock)
    with pytest.raises(NotFoundError):
        store.get("missing")
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("log/1", b"other")
    assert clock.naps == []


def test_a_lost_response_meets_ones_own_write(inner: Store) -> None:
    """The caller tells by the content whose write it was; the log has a token for that."""
    store = _over(inner, on("put_if_absent", [Fault.LOST_RESPONSE]))
    with pytest.raises(AlreadyExistsError):
        store.put_if_absent("log/new", b"mine")
    assert inner.get("log/new") == b"mine"
    assert store.meter.snapshot().put_if_absent.requests == 2


class _BreaksOff:
    """Hands out two entries per listing, then fails."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.uri = inner.uri
        self.asked: list[str | None] = []

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        self.asked.append(start_after)
        for number, info in enumerate(self._inner.list(prefix, start_after)):
            if number == 2:
                raise UnavailableError("the second page did not come")
            yield info


def test_a_listing_goes_on_where_it_broke_off(inner: Store) -> None:
    breaking = _BreaksOff(inner)
    config = StoreConfig(uri=inner.uri, retry=RetryPolicy(attempts=2))
    store = layered(breaking, config=config, runtime=Runtime(clock=FakeClock()))  # type: ignore[arg-type]
    # Five failures with two attempts each: patience begins anew whenever an entry arrives.
    assert [info.path for info in store.list("log/")] == [f"log/{number}" for number in range(10)]
    assert breaking.asked == [None, "log/1", "log/3", "log/5", "log/7"]


def test_a_listing_that_never_comes_is_given_up(inner: Store) -> None:
    clock = FakeClock()
    with pytest.raises(UnavailableError):
        list(_over(inner, at(_ALWAYS), clock, RetryPolicy(attempts=3)).list())
    assert len(clock.naps) == 2


def test_a_third_of_all_calls_failing_is_survived(inner: Store) -> None:
    store = _over(inner, seeded(11, {Fault.UNAVAILABLE: 0.2, Fault.LOST_RESPONSE: 0.13}), retry=RetryPolicy(attempts=12))
    for number in range(50):
        store.put(f"many/{number:02}", b"%d" % number)
    assert [int(store.get(info.path)) for info in store.list("many/")] == list(range(50))
