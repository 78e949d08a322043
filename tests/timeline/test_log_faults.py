"""A store that loses answers, stays away, lies or dies: the log stays right, and says what it does not know."""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

import pytest

from needlefish.config import RetryPolicy, StoreConfig
from needlefish.errors import CommitUnknownError, CorruptError, InvalidError, UnavailableError, UnsupportedError
from needlefish.format.envelope import seal
from needlefish.format.log_entry import LATEST_PATH, LOG_PREFIX, checkpoint_path, encode_entry, log_path
from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.store import RetriedStore, Store, layered, open_store
from needlefish.table.create import create_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.testing.faulty_store import Call, Fault, FaultyStore, Schedule, crash_everywhere, on, seeded
from needlefish.timeline import read_newest
from needlefish.timeline.replay import read_entries, read_entry

Append = Callable[..., TableState]
_numbers = count()


def _retrying(inner: Store, schedule: Schedule, attempts: int = 6) -> RetriedStore:
    runtime = Runtime(clock=FakeClock(), chance=random.Random(3))
    return layered(
        FaultyStore(inner, schedule, runtime), config=StoreConfig(uri=inner.uri, retry=RetryPolicy(attempts=attempts)), runtime=runtime
    )


def _during(kinds: Iterable[str], fault: Fault, times: int = 10**9) -> Schedule:
    left = count()
    return lambda call: fault if call.kind in kinds and next(left) < times else None


def test_a_lost_answer_is_recognised_by_the_token(store: RetriedStore, created: TableState, append: Append) -> None:
    faulty = _retrying(store, on("put_if_absent", [Fault.LOST_RESPONSE]))
    after = append(faulty, created)
    assert after.version == 1
    assert faulty.meter.snapshot().put_if_absent.requests == 2
    assert read_newest(store) == after
    assert read_entry(store, 2) is None


def test_a_lost_answer_without_retries_is_recognised_too(store: RetriedStore, created: TableState, append: Append) -> None:
    after = append(FaultyStore(store, on("put_if_absent", [Fault.LOST_RESPONSE])), created)
    assert read_newest(store) == after


def test_a_lost_refusal_is_no_success(store: RetriedStore, created: TableState, append: Append) -> None:
    append(store, created)
    # The probe does not see the other's entry, the put is refused, and the refusal is lost.
    hidden = iter([b""])

    class Blind:
        def __init__(self, inner: Store) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> object:
            return getattr(self._inner, name)

        def get(self, path: str) -> bytes:
            if path == log_path(1) and next(hidden, None) is not None:
                return self._inner.get(log_path(99))
            return self._inner.get(path)

    after = append(FaultyStore(Blind(store), on("put_if_absent", [Fault.LOST_RESPONSE])), created)  # type: ignore[arg-type]
    assert (after.version, after.totals.rows) == (2, 2)


def test_creating_survives_a_lost_answer(store: RetriedStore, definition: TableDefinition) -> None:
    state = create_table(_retrying(store, on("put_if_absent", [Fault.LOST_RESPONSE])), definition)
    assert read_newest(store) == state


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_RESPONSE])
def test_a_store_that_stays_away_leaves_the_commit_unknown(store: RetriedStore, created: TableState, append: Append, fault: Fault) -> None:
    away = False

    def schedule(call: Call) -> Fault | None:
        nonlocal away
        away = away or call.kind == "put_if_absent"
        return (fault if call.kind == "put_if_absent" else Fault.UNAVAILABLE) if away else None

    with pytest.raises(CommitUnknownError, match=r"00001\.json: .* token [0-9a-f]{32}") as caught:
        append(_retrying(store, schedule), created)
    # The message leads to the answer: the token is in the log exactly if the put landed.
    landed = read_entry(store, 1)
    assert (landed is not None and landed.token in str(caught.value)) == (fault is Fault.LOST_RESPONSE)


def test_an_own_entry_that_cannot_be_read_back_is_unknown_and_not_worth_a_blind_retry(
    store: RetriedStore, created: TableState, append: Append
) -> None:
    """The put landed, its answer was lost, its repetition was refused, and then the store went away."""
    puts = 0

    def schedule(call: Call) -> Fault | None:
        nonlocal puts
        puts += call.kind == "put_if_absent"
        if call.kind == "put_if_absent":
            return Fault.LOST_RESPONSE if puts == 1 else None
        return Fault.UNAVAILABLE if puts else None

    with pytest.raises(CommitUnknownError):
        append(_retrying(store, schedule), created)
    assert read_entry(store, 1) is not None


def test_a_put_that_never_landed_but_lost_the_number_goes_on(store: RetriedStore, created: TableState, append: Append) -> None:
    def schedule(call: Call) -> Fault | None:
        if call.kind == "put_if_absent" and call.path == log_path(1):
            append(store, created) if read_entry(store, 1) is None else None
            return Fault.UNAVAILABLE
        return None

    after = append(_retrying(store, schedule), created)
    assert (after.version, read_newest(store).totals.rows) == (2, 2)


def test_a_store_away_before_the_put_is_unavailable_and_nothing_is_committed(
    store: RetriedStore, created: TableState, append: Append
) -> None:
    with pytest.raises(UnavailableError):
        append(_retrying(store, _during(["get"], Fault.UNAVAILABLE)), created)
    assert read_newest(store) == created


@pytest.mark.parametrize("seed", range(8))
def test_random_faults_lose_and_double_nothing(store: RetriedStore, created: TableState, append: Append, seed: int) -> None:
    faulty = _retrying(store, seeded(seed, {Fault.LOST_RESPONSE: 0.2, Fault.UNAVAILABLE: 0.2}), attempts=20)
    state = created
    for _ in range(20):
        state = append(faulty, state)
    assert state.version == 20
    assert read_newest(store) == state
    assert len({entry.token for entry in read_entries(store, 0, 20)}) == 21


class _Refusing:
    """Lets nobody write checkpoints: a permission that is missing, say."""

    def __init__(self, inner: Store, error: Exception) -> None:
        self._inner, self._error = inner, error

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def put(self, path: str, data: bytes) -> None:
        raise self._error


@pytest.mark.parametrize("error", [UnavailableError("away"), InvalidError("denied")])
def test_a_checkpoint_that_cannot_be_written_does_not_fail_the_commit(
    store: RetriedStore, definition: TableDefinition, append: Append, error: Exception
) -> None:
    refusing = _Refusing(store, error)
    state = create_table(refusing, definition)  # type: ignore[arg-type]
    for _ in range(40):
        state = append(refusing, state)
    assert [info.path for info in store.list("_needlefish/")] == [log_path(version) for version in range(41)]
    assert read_newest(store) == state


def test_a_damaged_entry_is_corrupt_and_named(store: RetriedStore, created: TableState, append: Append) -> None:
    append(store, append(store, created))
    good = store.get(log_path(1))
    store.put(log_path(1), good.replace(b'"rows":1', b'"rows":7'))
    store.delete([LATEST_PATH, checkpoint_path(0)])
    with pytest.raises(CorruptError, match=log_path(1)):
        read_newest(store)
    with pytest.raises(CorruptError, match=log_path(1)):
        append(store, created)
    store.put(log_path(1), b"")
    with pytest.raises(CorruptError, match=log_path(1)):
        read_newest(store)
    store.put(log_path(1), store.get(log_path(2)))
    with pytest.raises(CorruptError, match=f"{log_path(1)}: holds version 2"):
        read_newest(store)


def test_a_log_that_does_not_begin_with_a_creation_is_corrupt(store: RetriedStore, created: TableState, append: Append) -> None:
    append(store, created)
    second = read_entry(store, 1)
    assert second is not None
    store.delete([LATEST_PATH, checkpoint_path(0)])
    store.put(log_path(0), encode_entry(replace(second, version=0)))
    with pytest.raises(CorruptError, match=log_path(0)):
        read_newest(store)


def test_torn_and_flipped_reads_are_corrupt(store: RetriedStore, created: TableState, append: Append) -> None:
    append(store, created)
    for fault in (Fault.TORN_READ, Fault.FLIPPED_READ):
        with pytest.raises(CorruptError, match=LOG_PREFIX):
            # The first get is the hint's, whose damage is harmless; then the log is read from its start.
            read_newest(FaultyStore(store, on("get", [fault, fault, fault])))


@pytest.mark.parametrize("path", [log_path(2), LATEST_PATH])
def test_a_future_format_is_unsupported_and_asks_for_an_upgrade(
    store: RetriedStore, created: TableState, append: Append, path: str
) -> None:
    append(store, created)
    store.put(path, seal({"format": 2, "version": 2, "anything": []}))
    with pytest.raises(UnsupportedError, match=f"{path}: written in format 2.*upgrade"):
        read_newest(store)
    if path != LATEST_PATH:
        with pytest.raises(UnsupportedError):
            append(store, created)


def test_an_unknown_action_is_unsupported(store: RetriedStore, created: TableState) -> None:
    store.put(log_path(1), seal({"format": 1, "version": 1, "token": "t", "timestamp_ms": 1, "action": "fold_space", "writer": "w"}))
    with pytest.raises(UnsupportedError, match="'fold_space'"):
        read_newest(store)


def test_dying_at_any_call_of_an_append_leaves_the_state_before_or_after(definition: TableDefinition, append: Append) -> None:
    made: list[TableState] = []

    def make() -> Store:
        store = open_store(StoreConfig(uri=f"memory://timeline-crash-{next(_numbers)}"))
        state = create_table(store, definition)
        # The crash falls on a version that writes a checkpoint as well.
        for _ in range(definition.properties.checkpoint_interval - 1):
            state = append(store, state)
        made.append(state)
        return store

    outcomes = []
    for point in crash_everywhere(make, lambda store: append(store, made[-1])):
        before = made[-1]
        found = read_newest(point.store)
        assert found.version - before.version in (0, 1)
        assert found.totals.rows == found.version
        assert append(point.store, found).version == found.version + 1
        assert read_newest(point.store).totals.rows == found.version + 1
        outcomes.append((point.number, point.fault, found.version - before.version))
    # The probe, a look at the end, the put, the checkpoint, the hint: the entry is there from the moment its put was done.
    assert [landed for _, _, landed in outcomes] == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


def test_dying_at_any_call_of_a_creation_leaves_no_table_or_a_whole_one(definition: TableDefinition, append: Append) -> None:
    def make() -> Store:
        return open_store(StoreConfig(uri=f"memory://timeline-crash-{next(_numbers)}"))

    points = list(crash_everywhere(make, lambda store: create_table(store, definition)))
    # The probe, the hint, the checkpoints; then the put, a checkpoint and the hint.
    assert len(points) == 12
    for point in points:
        if read_entry(point.store, 0) is None:
            create_table(point.store, definition)
        assert append(point.store, read_newest(point.store)).version == 1
