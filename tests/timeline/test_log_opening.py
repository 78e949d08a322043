"""Opening reads a handful of objects however long the log is, whatever happened to the checkpoints."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError, InvalidError, NotFoundError
from needlefish.format.log_entry import CHECKPOINT_PREFIX, LATEST_PATH, checkpoint_path, encode_state, log_path
from needlefish.model.log import TableState
from needlefish.store import RetriedStore, Store, open_store
from needlefish.testing.faulty_store import Fault, FaultyStore, on
from needlefish.timeline import catch_up, read_newest, read_state_at, version_at_time

Append = Callable[..., TableState]
LongLog = Callable[[Store, int], TableState]

_VERSIONS = 10_000


@pytest.fixture(scope="module")
def ten_thousand(long_log: LongLog) -> tuple[RetriedStore, TableState]:
    """One log for all tests here, which do not change it but for the hint."""
    store = open_store(StoreConfig(uri="memory://timeline-ten-thousand"))
    return store, long_log(store, _VERSIONS)


@pytest.fixture
def long(ten_thousand: tuple[RetriedStore, TableState]) -> tuple[RetriedStore, TableState]:
    """Counted from zero, with a hint that is whole."""
    store, newest = ten_thousand
    store.put(LATEST_PATH, encode_state(newest))
    return store.apart(), newest


def _requests(store: RetriedStore) -> tuple[int, int]:
    usage = store.meter.snapshot()
    assert usage.requests == usage.get.requests + usage.list.requests
    return usage.get.requests, usage.list.requests


def test_ten_thousand_versions_open_with_two_requests(long: tuple[RetriedStore, TableState]) -> None:
    store, newest = long
    assert read_newest(store) == newest
    assert _requests(store) == (2, 0)


@pytest.mark.parametrize("damage", ["missing", "torn", "flipped"])
def test_without_the_hint_the_newest_checkpoint_serves(long: tuple[RetriedStore, TableState], damage: str) -> None:
    store, newest = long
    whole = store.get(LATEST_PATH)
    if damage == "missing":
        store.delete([LATEST_PATH])
    else:
        store.put(LATEST_PATH, whole[:100] if damage == "torn" else whole.replace(b'"rows":9999', b'"rows":9998'))
    store = store.apart()
    assert read_newest(store) == newest
    # The hint; by one listing the checkpoint of 9,984; then 15 entries in windows of 1, 2, 4, 8 and 16, the last of
    # which are missing, with a second look at the hint between them.
    assert _requests(store) == (1 + 1 + 31 + 1, 1)


@pytest.mark.parametrize("lag", [1, 5, 31, 32, 100, 5_000, _VERSIONS - 1])
def test_an_old_hint_costs_a_bounded_number_of_requests(long: tuple[RetriedStore, TableState], lag: int) -> None:
    """A writer that was stopped for a while between its commit and its hint leaves one."""
    store, newest = long
    store.put(
        LATEST_PATH,
        encode_state(replace(newest, version=newest.version - lag, totals=replace(newest.totals, rows=newest.totals.rows - lag))),
    )
    store = store.apart()
    assert read_newest(store) == newest
    gets, lists = _requests(store)
    assert gets <= 100
    assert lists <= 1


@pytest.mark.parametrize("known", [None, 0, 100, _VERSIONS - 2, _VERSIONS - 1])
def test_a_handle_that_lags_catches_up_through_the_hint(long: tuple[RetriedStore, TableState], known: int | None) -> None:
    store, newest = long
    state = None if known is None else read_state_at(store, known, newest)
    store = store.apart()
    assert catch_up(store, state) == newest
    gets, lists = _requests(store)
    assert gets <= 9
    assert lists == 0


def test_damaged_checkpoints_are_passed_over(store: RetriedStore, long_log: LongLog) -> None:
    newest = long_log(store, 100)
    store.delete([LATEST_PATH])
    for version in (96, 64):
        store.put(checkpoint_path(version), b"\x00" * 10)
    assert read_newest(store) == newest
    assert read_state_at(store, 70, newest).version == 70
    store.delete([info.path for info in store.list(CHECKPOINT_PREFIX)])
    assert read_newest(store) == newest
    assert read_state_at(store, 70, newest).totals.rows == 70


def test_a_checkpoint_in_the_wrong_place_is_passed_over(store: RetriedStore, long_log: LongLog) -> None:
    newest = long_log(store, 100)
    store.put(checkpoint_path(32), store.get(checkpoint_path(64)))
    assert read_state_at(store, 40, newest).version == 40


def test_a_stale_listing_costs_requests_only(store: RetriedStore, long_log: LongLog) -> None:
    newest = long_log(store, 100)
    store.delete([LATEST_PATH])
    assert read_newest(FaultyStore(store, on("list", [Fault.STALE_LIST]))) == newest


def test_strangers_beside_the_checkpoints_are_ignored(store: RetriedStore, long_log: LongLog) -> None:
    newest = long_log(store, 40)
    store.delete([LATEST_PATH])
    for name in ("notes.txt", "0.json", "9" * 19 + "x.json", "٣" * 20 + ".json"):
        store.put(CHECKPOINT_PREFIX + name, b"?")
    assert read_newest(store) == newest


def test_every_version_opens_as_it_was(store: RetriedStore, long_log: LongLog) -> None:
    newest = long_log(store, 70)
    for version in range(70):
        state = read_state_at(store, version, newest)
        assert (state.version, state.totals.rows, state.timestamp_ms) == (version, version, 1_000 + version * 10)


def test_opening_an_old_version_is_bounded(long: tuple[RetriedStore, TableState]) -> None:
    store, newest = long
    assert read_state_at(store, 5_023, newest).version == 5_023
    # One listing, the checkpoint of 4,992 and the 31 entries after it.
    assert _requests(store) == (32, 1)


@pytest.mark.parametrize("version", [-1, 10, 10**9])
def test_a_missing_version_is_not_found_and_the_range_is_named(store: RetriedStore, long_log: LongLog, version: int) -> None:
    newest = long_log(store, 10)
    with pytest.raises(NotFoundError, match=f"version {version} .* from 0 to 9"):
        read_state_at(store, version, newest)


def test_a_gap_is_corrupt_and_named(store: RetriedStore, long_log: LongLog) -> None:
    newest = long_log(store, 20)
    store.delete([log_path(5)])
    with pytest.raises(CorruptError, match=log_path(5)):
        read_state_at(store, 7, newest)
    with pytest.raises(CorruptError, match=log_path(5)):
        version_at_time(store, 1_051, read_state_at(store, 19, newest))


def test_no_table_is_not_found(store: RetriedStore) -> None:
    with pytest.raises(NotFoundError, match=f"{store.uri} holds no Needlefish table"):
        read_newest(store)


def test_a_time_opens_the_last_version_before_it(long: tuple[RetriedStore, TableState]) -> None:
    store, newest = long
    times = {1_000: 0, 1_009: 0, 1_010: 1, 1_000 + 5_000 * 10 + 3: 5_000, newest.timestamp_ms: _VERSIONS - 1, 10**15: _VERSIONS - 1}
    assert {time: version_at_time(store, time, newest) for time in times} == times


def test_a_time_is_found_by_halving(long: tuple[RetriedStore, TableState]) -> None:
    store, newest = long
    version_at_time(store, 50_003, newest)
    # The first version, then log2 of 10,000.
    assert _requests(store)[0] <= 1 + 14


def test_a_time_before_the_table_is_invalid(store: RetriedStore, long_log: LongLog) -> None:
    newest = long_log(store, 3)
    with pytest.raises(InvalidError, match=r"timestamp 999 ms is before .* was created"):
        version_at_time(store, 999, newest)
