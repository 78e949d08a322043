"""Each fault does what it says, no more; crashes are final; the same seed fails the same calls."""

import random
from itertools import count

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import AlreadyExistsError, NotFoundError, UnavailableError
from needlefish.runtime import Runtime
from needlefish.store import ByteRange, Store, local_path, open_store
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Call, Fault, FaultyStore, SimulatedCrash, at, crash_everywhere, on, seeded

_numbers = count()


def _empty() -> Store:
    return open_store(StoreConfig(uri=f"memory://faulty-{next(_numbers)}"))


@pytest.fixture
def inner() -> Store:
    store = _empty()
    store.put("a", b"0123456789")
    return store


def test_a_lost_response_was_done(inner: Store) -> None:
    with pytest.raises(UnavailableError):
        FaultyStore(inner, at({1: Fault.LOST_RESPONSE})).put("b", b"x")
    assert inner.get("b") == b"x"


def test_a_lost_refusal_is_lost_too(inner: Store) -> None:
    faulty = FaultyStore(inner, at({1: Fault.LOST_RESPONSE, 2: Fault.LOST_RESPONSE}))
    with pytest.raises(UnavailableError):
        faulty.put_if_absent("a", b"other")
    with pytest.raises(UnavailableError):
        faulty.get("missing")
    assert inner.get("a") == b"0123456789"


def test_an_unavailable_store_did_nothing(inner: Store) -> None:
    faulty = FaultyStore(inner, at({1: Fault.UNAVAILABLE}))
    with pytest.raises(UnavailableError):
        faulty.put("b", b"x")
    with pytest.raises(NotFoundError):
        inner.get("b")
    with pytest.raises(AlreadyExistsError):
        faulty.put_if_absent("a", b"x")


def test_a_slow_store_takes_the_runtimes_time(inner: Store) -> None:
    clock = FakeClock()
    assert FaultyStore(inner, at({1: Fault.SLOW}), Runtime(clock=clock), slow_seconds=30).get("a") == b"0123456789"
    assert clock.naps == [30]


def test_torn_and_flipped_reads(inner: Store) -> None:
    torn = FaultyStore(inner, lambda call: Fault.TORN_READ)
    flipped = FaultyStore(inner, lambda call: Fault.FLIPPED_READ)
    assert (torn.get("a"), flipped.get("a")) == (b"01234", b"0123446789")
    assert (torn.get_range("a", ByteRange(2, 4)), flipped.get_range("a", ByteRange(2, 4))) == (b"23", b"2355")
    spans = [ByteRange(0, 2), ByteRange(4, 2)]
    assert (torn.get_ranges("a", spans), flipped.get_ranges("a", spans)) == ([b"01", b"4"], [b"01", b"44"])
    assert inner.get("a") == b"0123456789"


def test_a_stale_list_misses_the_newest(inner: Store) -> None:
    inner.put("b", b"x")
    inner.put("c", b"x")
    faulty = FaultyStore(inner, on("list", [Fault.STALE_LIST]))
    assert len(list(faulty.list())) == 2
    assert [info.path for info in faulty.list()] == ["a", "b", "c"]


def test_a_fault_that_does_not_fit_leaves_the_call_alone(inner: Store) -> None:
    FaultyStore(inner, lambda call: Fault.TORN_READ).put("b", b"whole")
    assert inner.get("b") == b"whole"
    assert FaultyStore(inner, lambda call: Fault.STALE_LIST).get("b") == b"whole"


@pytest.mark.parametrize(("fault", "done"), [(Fault.CRASH_BEFORE, False), (Fault.CRASH_AFTER, True)])
def test_after_a_crash_nothing_reaches_the_store(inner: Store, fault: Fault, done: bool) -> None:
    faulty = FaultyStore(inner, on("put", [fault]))
    faulty.get("a")
    with pytest.raises(SimulatedCrash):
        faulty.put("b", b"x")
    # What a `finally` of a killed process would do, and cannot.
    with pytest.raises(SimulatedCrash):
        faulty.delete(["a"])
    assert [info.path for info in inner.list()] == (["a", "b"] if done else ["a"])


def test_no_handler_of_errors_revives_a_dead_process() -> None:
    assert not issubclass(SimulatedCrash, Exception)


def test_scripts_go_by_kind(inner: Store) -> None:
    faulty = FaultyStore(inner, on("get", [None, Fault.UNAVAILABLE]))
    faulty.head("a")
    faulty.get("a")
    faulty.put("b", b"")
    with pytest.raises(UnavailableError):
        faulty.get("a")
    assert faulty.get("a") == b"0123456789"
    assert faulty.injected == [(Call(number=4, kind="get", path="a"), Fault.UNAVAILABLE)]
    assert [call.kind for call in faulty.calls] == ["head", "get", "put", "get", "get"]


def test_one_seed_one_fate() -> None:
    rates = {Fault.UNAVAILABLE: 0.25, Fault.LOST_RESPONSE: 0.25}
    calls = [Call(number=number, kind="get", path="a") for number in range(1, 2001)]
    first = [seeded(5, rates)(call) for call in calls]
    shuffled = random.Random(1).sample(calls, len(calls))
    again = {call.number: fate for call, fate in zip(shuffled, map(seeded(5, rates), shuffled), strict=True)}
    assert first == [again[call.number] for call in calls]
    assert first != [seeded(6, rates)(call) for call in calls]
    # 2,000 draws: five standard deviations around 500 are 97.
    assert all(403 < first.count(fault) < 597 for fault in rates)


def test_a_crash_loop_dies_around_every_call() -> None:
    def work(store: Store) -> None:
        store.put("data", b"x")
        store.put_if_absent("log", b"x")

    left = [(point.number, point.fault, [info.path for info in point.store.list()]) for point in crash_everywhere(_empty, work)]
    assert left == [
        (1, Fault.CRASH_BEFORE, []),
        (1, Fault.CRASH_AFTER, ["data"]),
        (2, Fault.CRASH_BEFORE, ["data"]),
        (2, Fault.CRASH_AFTER, ["data", "log"]),
    ]


def test_no_read_gets_around_the_faults(tmp_path_factory: pytest.TempPathFactory) -> None:
    local = open_store(StoreConfig(uri=str(tmp_path_factory.mktemp("local"))))
    assert local_path(local, "a") is not None
    assert local_path(FaultyStore(local), "a") is None
