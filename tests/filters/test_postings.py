"""Slots and pairs of postings: the same numbers from Python's integers, NumPy and compiled kernels."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.errors import InvalidError
from needlefish.filters.postings import (
    MAX_SLOTS,
    PAGE_BYTES,
    check_universe,
    page_slots_for,
    slot_of,
    slots_for_keys,
    slots_of,
    sort_distinct,
    sorted_pairs,
)
from needlefish.filters.postings_renumber import GONE, renumber

per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
HASH = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1])
SLOTS = st.integers(1, MAX_SLOTS) | st.sampled_from([1, 2**32 - 1, 2**32, 2**32 + 1, MAX_SLOTS])


@given(hashes=st.lists(HASH, max_size=30), slots=SLOTS)
def test_slots_of_an_array_are_those_of_whole_numbers(hashes: list[int], slots: int) -> None:
    assert slots_of(np.array(hashes, np.uint64), slots).tolist() == [slot_of(hashed, slots) for hashed in hashes]


@given(hashed=HASH, slots=st.integers(1, 2**34), doublings=st.integers(0, 10))
def test_slots_nest_and_stay_below_their_number(hashed: int, slots: int, doublings: int) -> None:
    assert slot_of(hashed, slots << doublings) >> doublings == slot_of(hashed, slots) < slots


@given(expected=st.integers(1, 10**9), total=st.integers(0, 10**12), false_reads=st.floats(0.001, 10))
def test_slots_keep_the_declared_false_reads(expected: int, total: int, false_reads: float) -> None:
    base = max(1, round(expected / false_reads))
    if base * total > 2**40 * expected:
        return
    slots = slots_for_keys(expected, false_reads, total)
    doublings = (slots // base).bit_length() - 1
    assert slots == base << doublings
    assert total <= expected << doublings
    assert not doublings or total > expected << (doublings - 1)


def test_more_slots_than_a_run_can_have_are_refused() -> None:
    with pytest.raises(InvalidError, match="declare more false_reads"):
        slots_for_keys(10**12, 0.001, 0)
    with pytest.raises(InvalidError, match="several runs"):
        check_universe(2**40, 2**23)
    check_universe(2**40, 2**22)


@given(slots=st.integers(1, 2**40), granules=st.integers(0, 2**20), keys=st.integers(0, 10**9))
def test_pages_are_within_the_run(slots: int, granules: int, keys: int) -> None:
    assert 1 <= page_slots_for(slots, granules, keys) <= slots


def test_an_average_page_has_about_four_kib() -> None:
    slots, granules, keys = 10**9, 12_000, 10**8
    pages = slots / page_slots_for(slots, granules, keys)
    assert keys * 19 / 8 / pages == pytest.approx(PAGE_BYTES, rel=0.1)


@given(data=st.data(), slots=st.integers(1, 5000), granules=st.integers(0, 12))
@per_engine
def test_pairs_are_those_of_a_set(engine: str, data: st.DataObject, slots: int, granules: int) -> None:
    hashes = [data.draw(st.lists(HASH, max_size=40)) for _ in range(granules)]
    wanted = {slot_of(hashed, slots) * granules + ordinal for ordinal, part in enumerate(hashes) for hashed in part}
    assert sorted_pairs([np.array(part, np.uint64) for part in hashes], slots).tolist() == sorted(wanted)


# Keys, granules, slots and distinct hashes: enough for several buckets, a single granule, few values, one value.
@pytest.mark.parametrize(
    ("keys", "granules", "slots", "values"),
    [(300_000, 37, 3_000_000, 2**64 - 1), (100_000, 1, 2**44, 2**64 - 1), (200_000, 500, 10**6, 3), (100_000, 900, 7, 1)],
)
def test_many_pairs_are_sorted_and_distinct(engine: str, keys: int, granules: int, slots: int, values: int) -> None:
    rng = np.random.default_rng(keys)
    flat = rng.integers(0, values, keys, np.uint64) * np.uint64(1 if values > 3 else 2**62)
    ordinals = np.sort(rng.integers(0, granules, keys))
    parts = np.split(flat, np.searchsorted(ordinals, np.arange(1, granules)))
    wanted = np.unique(slots_of(flat, slots) * granules + ordinals)
    assert np.array_equal(sorted_pairs(parts, slots), wanted)


@given(pairs=st.lists(st.integers(0, 10**6), max_size=300), first=st.integers(0, 2**61))
@per_engine
def test_pairs_are_sorted_from_any_base(engine: str, pairs: list[int], first: int) -> None:
    given_pairs = np.array(pairs, np.int64) + first
    assert np.array_equal(sort_distinct(given_pairs.copy(), first, first + 10**6 + 1), np.unique(given_pairs))


@given(
    pairs=st.sets(st.tuples(st.integers(0, 2**30), st.integers(0, 6)), max_size=60),
    halvings=st.integers(0, 4),
    ordinals=st.lists(st.integers(-1, 100), min_size=7, max_size=7),
)
@per_engine
def test_renumbering_keeps_the_living(engine: str, pairs: set[tuple[int, int]], halvings: int, ordinals: list[int]) -> None:
    ordered = np.array([slot * 7 + ordinal for slot, ordinal in sorted(pairs)], np.int64)
    wanted = [(slot >> halvings) * 101 + ordinals[ordinal] for slot, ordinal in sorted(pairs) if ordinals[ordinal] != GONE]
    assert renumber(ordered, 7, halvings, np.array(ordinals, np.int64), 101).tolist() == wanted
