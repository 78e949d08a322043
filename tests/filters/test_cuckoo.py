"""Aligned cuckoo filters: nothing is missed, nothing is stored twice, and both engines build the same table."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.errors import InvalidError
from needlefish.filters.compiling import BUDGET, PRICE_NS
from needlefish.filters.cuckoo import MAX_SLOTS, CuckooFilter, bits_for, bits_per_key, buckets_for, build_filter, false_rate, slots_for
from needlefish.filters.cuckoo_hash import BITS, MAX_BUCKETS, partner_of, place_of, places_of

per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=80)
# Halves from small ranges: many keys share a bucket, a fingerprint, or both.
CROWDED = st.lists(st.builds(lambda high, low: high << 62 | low << 20, st.integers(0, 3), st.integers(0, 300)), max_size=120)


def random_hashes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def holds(built: CuckooFilter, hashed: int, bits: int) -> bool:
    first, second, fingerprint = place_of(hashed, len(built.table), bits)
    return fingerprint in built.table[first] or fingerprint in built.table[second]


def with_engine(compiled: bool, hashes: np.ndarray, buckets: int, bits: int) -> CuckooFilter:
    before = BUDGET.available, BUDGET.spent_ns
    BUDGET.available, BUDGET.spent_ns = compiled, PRICE_NS
    try:
        return build_filter(hashes, buckets, bits)
    finally:
        BUDGET.available, BUDGET.spent_ns = before


@given(hashes=HASHES | CROWDED, buckets=st.integers(1, 40), bits=st.sampled_from(BITS))
@per_engine
def test_every_key_is_found_and_stored_once(engine: str, hashes: list[int], buckets: int, bits: int) -> None:
    built = build_filter(np.array(hashes, np.uint64), buckets, bits)
    assert all(holds(built, hashed, bits) for hashed in hashes)
    pairs = {(frozenset(place[:2]), place[2]) for place in (place_of(hashed, buckets, bits) for hashed in hashes)}
    assert built.keys == np.count_nonzero(built.table) == len(pairs)


@given(hashes=HASHES | CROWDED, buckets=st.integers(1, 40), bits=st.sampled_from(BITS))
def test_both_engines_build_the_same_table(hashes: list[int], buckets: int, bits: int) -> None:
    plain, compiled = (with_engine(engine, np.array(hashes, np.uint64), buckets, bits) for engine in (False, True))
    assert plain.table.dtype == compiled.table.dtype
    assert np.array_equal(plain.table, compiled.table)
    assert plain.keys == compiled.keys


@pytest.mark.parametrize(("keys", "buckets"), [(2_000, 760), (2_850, 1_000), (900, 1_000), (950, 1_000), (5_000, 40)])
def test_both_engines_agree_where_many_are_kicked(keys: int, buckets: int) -> None:
    hashes = random_hashes(keys, seed=keys)
    plain, compiled = with_engine(False, hashes, buckets, 16), with_engine(True, hashes, buckets, 16)
    assert np.array_equal(plain.table, compiled.table)
    assert all(holds(plain, hashed, 16) for hashed in hashes.tolist())


@given(hashed=st.integers(0, 2**64 - 1), buckets=st.integers(1, 10) | st.integers(1, MAX_BUCKETS), bits=st.sampled_from(BITS))
def test_buckets_are_each_others_partners(hashed: int, buckets: int, bits: int) -> None:
    first, second, fingerprint = place_of(hashed, buckets, bits)
    assert 0 <= first < buckets
    assert 0 <= second < buckets
    assert 1 <= fingerprint < 2**bits
    assert (partner_of(first, fingerprint, buckets), partner_of(second, fingerprint, buckets)) == (second, first)
    many = places_of(np.array([hashed], np.uint64), buckets, bits)
    assert (many.first[0], many.second[0], many.fingerprints[0]) == (first, second, fingerprint)


def test_places_do_not_change() -> None:
    """They are in every run: numbers worked out once from the specification."""
    assert place_of(0, 38_000, 16) == (0, 23_485, 1)
    assert place_of(2**64 - 1, 38_000, 16) == (37999, 32584, 65535)
    assert place_of(0x0123_4567_89AB_CDEF, 3_999, 12) == (17, 2097, 2203)


def test_the_same_hashes_give_the_same_table(engine: str) -> None:
    hashes = random_hashes(3_000, seed=1)
    assert np.array_equal(build_filter(hashes, 1_040, 16).table, build_filter(hashes.copy(), 1_040, 16).table)


def test_repetitions_cost_nothing(engine: str) -> None:
    hashes = random_hashes(500, seed=2)
    once = build_filter(hashes, buckets_for(500), 16)
    assert np.array_equal(build_filter(np.repeat(hashes, 40), buckets_for(500), 16).table, once.table)


def test_slots_follow_the_keys(engine: str) -> None:
    sizes = {keys: build_filter(random_hashes(keys, seed=3), 1_000, 16) for keys in (0, 100, 1_000, 2_630, 3_300, 20_000)}
    assert [built.slots for built in sizes.values()] == [1, 1, 2, 3, 4, 22]
    for keys, built in sizes.items():
        assert keys * 0.995 <= built.keys <= keys


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_filters_grow_up_to_the_last_slot(engine: str, buckets: int) -> None:
    """Every fingerprint of eight bits in a few buckets: as full as a filter can be."""
    hashes = np.array([high << 62 | low << 24 for high in range(4) for low in range(256)], np.uint64)
    built = build_filter(hashes, buckets, 8)
    assert built.slots <= MAX_SLOTS
    assert all(holds(built, hashed, 8) for hashed in hashes.tolist())


def test_more_keys_than_a_filter_can_have_leave_one_without_slots(engine: str) -> None:
    built = build_filter(random_hashes(600, seed=4), 2, 16)
    assert (built.slots, built.keys) == (0, 0)
    assert build_filter(random_hashes(450, seed=4), 2, 16).slots <= MAX_SLOTS


def test_a_filter_that_does_not_fit_grows_by_a_slot(engine: str) -> None:
    """Fingerprints that all share the same two of 400 buckets: the estimate from their number is far too low."""
    low = np.arange(2**16, dtype=np.uint64) << np.uint64(16)
    pair = low[places_of(low, 400, 16).second == 5]
    distinct = len(np.unique(places_of(pair, 400, 16).fingerprints))
    built = build_filter(pair, 400, 16)
    assert slots_for(len(pair), 400) == 1
    assert built.slots == -(-distinct // 2) > 50
    assert sorted(np.flatnonzero(built.table.any(axis=1)).tolist()) == [0, 5]
    assert built.keys == distinct


def test_published_sizes(engine: str) -> None:
    """100,000 values in 38,000 buckets: 20 bits a value were published, with a fourth slot in every tenth filter."""
    assert buckets_for(100_000) == 38_000
    if engine == "numpy":
        return
    for seed in range(10):
        built = build_filter(random_hashes(100_000, seed), 38_000, 16)
        assert built.slots == 3
        occupancy = built.keys / built.table.size
        assert 0.87 < occupancy < 0.88
        assert bits_per_key(16, occupancy) == pytest.approx(built.table.size * 16 / built.keys)
        assert bits_per_key(16, occupancy) < 18.3


@pytest.mark.parametrize(
    ("buckets", "bits", "argument"), [(0, 16, "buckets"), (MAX_BUCKETS + 1, 16, "buckets"), (10, 7, "bits"), (10, 0, "bits")]
)
def test_layouts_that_cannot_be_are_refused(buckets: int, bits: int, argument: str) -> None:
    with pytest.raises(InvalidError, match=f"{argument}="):
        build_filter(np.zeros(1, np.uint64), buckets, bits)


def test_bits_follow_the_reads_in_vain() -> None:
    assert bits_for(1, 0.1) == 8
    assert bits_for(1_000, 0.1) == 16
    assert bits_for(100_000, 0.1) == 24
    assert bits_for(10**9, 1e-6) == 32
    for filters in (1, 50, 1_000, 10**6):
        assert filters * false_rate(bits_for(filters, 0.1), 3, 0.88) <= 0.1
