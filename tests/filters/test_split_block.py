"""The split-block filter: bits as specified, no false negative, and the rates that the specification promises."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.errors import InvalidError
from needlefish.filters.split_block import MAX_BLOCKS, SplitBlockFilter, bits_per_value, blocks_for, expected_rate, values_for

per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
SALT = [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31]


def random_hashes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def specified(blocks: int, hashes: list[int]) -> bytes:
    """The specification's pseudo code, one integer at a time."""
    words = [[0] * 8 for _ in range(blocks)]
    for number in hashes:
        block = words[((number >> 32) * blocks) >> 32]
        for lane in range(8):
            block[lane] |= 1 << ((((number & 0xFFFFFFFF) * SALT[lane]) & 0xFFFFFFFF) >> 27)
    return b"".join(word.to_bytes(4, "little") for block in words for word in block)


@given(blocks=st.integers(1, 40), hashes=st.lists(st.integers(0, 2**64 - 1), max_size=60))
@per_engine
def test_bits_are_those_of_the_specification(engine: str, blocks: int, hashes: list[int]) -> None:
    bloom = SplitBlockFilter.empty(blocks)
    bloom.insert(np.array(hashes, np.uint64))
    assert bloom.to_bytes() == specified(blocks, hashes)
    assert SplitBlockFilter.from_bytes(bloom.to_bytes()) == bloom
    assert bloom.check(np.array(hashes, np.uint64)).all()
    assert all(map(bloom.may_contain, hashes))


@given(hashes=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50), blocks=st.integers(1, 5))
@per_engine
def test_batch_and_single_checks_agree(engine: str, hashes: list[int], blocks: int) -> None:
    bloom = SplitBlockFilter.empty(blocks)
    bloom.insert(np.array(hashes[::2], np.uint64))
    assert bloom.check(np.array(hashes, np.uint64)).tolist() == [bloom.may_contain(number) for number in hashes]


# Values in 1,024 blocks and the rate that the specification states for them, in its own digits.
@pytest.mark.parametrize(("values", "rate", "digits"), [(13_107, 0.0004, 4), (26_214, 0.0126, 4), (52_428, 0.18, 2)])
def test_the_specifications_example_rates(engine: str, values: int, rate: float, digits: int) -> None:
    assert round(expected_rate(1024, values), digits) == rate
    bloom = SplitBlockFilter.empty(1024)
    bloom.insert(random_hashes(values, seed=values))
    probes = 400_000
    measured = float(bloom.check(random_hashes(probes, seed=1)).mean())
    assert measured == pytest.approx(expected_rate(1024, values), abs=tolerance(rate, probes) + 0.05 * rate)
    assert bloom.false_positive_rate() == pytest.approx(measured, abs=tolerance(rate, probes))


def tolerance(rate: float, probes: int) -> float:
    """Five standard deviations of a measured share."""
    return 5 * math.sqrt(rate * (1 - rate) / probes)


@pytest.mark.parametrize(("probability", "bits"), [(0.1, 6.0), (0.01, 10.5), (0.001, 16.9), (0.0001, 26.4), (0.00001, 41)])
def test_the_specifications_bits_per_value(engine: str, probability: float, bits: float) -> None:
    assert bits_per_value(probability) == pytest.approx(bits, abs=0.06)
    values, probes = 100_000, 2_000_000
    bloom = SplitBlockFilter.sized(values, probability)
    assert len(bloom) * 256 / values == pytest.approx(bits, abs=0.06)
    bloom.insert(random_hashes(values, seed=5))
    measured = float(bloom.check(random_hashes(probes, seed=6)).mean())
    assert measured == pytest.approx(probability, abs=tolerance(probability, probes) + 0.05 * probability)


@given(values=st.integers(0, 10**8), probability=st.floats(1e-6, 0.9))
@settings(deadline=None)
def test_sizing_is_the_smallest_that_holds_and_the_reverse_agrees(values: int, probability: float) -> None:
    blocks = blocks_for(values, probability)
    assert expected_rate(blocks, values) <= probability
    assert blocks == 1 or expected_rate(blocks - 1, values) > probability
    assert values_for(blocks, probability) >= values


def test_the_rate_of_tiny_filters_is_exact() -> None:
    assert expected_rate(1, 0) == 0
    assert expected_rate(1, 1) == pytest.approx((1 / 32) ** 8, rel=0.05)
    assert expected_rate(1, 40) == pytest.approx((1 - (31 / 32) ** 40) ** 8)
    assert expected_rate(1, 10**9) == 1


def test_an_empty_filter_holds_nothing(engine: str) -> None:
    bloom = SplitBlockFilter.empty(3)
    assert not bloom.check(random_hashes(1000, seed=2)).any()
    assert (bloom.bits_set(), bloom.estimated_values(), bloom.false_positive_rate()) == (0, 0, 0)
    bloom.insert(np.zeros(0, np.uint64))
    assert bloom.bits_set() == 0


def test_a_full_filter_holds_everything() -> None:
    bloom = SplitBlockFilter.from_bytes(b"\xff" * 64)
    assert bloom.check(random_hashes(1000, seed=2)).all()
    assert (bloom.false_positive_rate(), bloom.estimated_values()) == (1, math.inf)


def test_one_block(engine: str) -> None:
    bloom = SplitBlockFilter.empty(1)
    bloom.insert(np.array([0, 2**64 - 1], np.uint64))
    assert bloom.may_contain(0)
    assert bloom.may_contain(2**64 - 1)
    assert 8 <= bloom.bits_set() <= 16


def test_the_largest_legal_filter(engine: str) -> None:
    """2 GiB that the operating system hands out page by page: only touched blocks cost memory."""
    bloom = SplitBlockFilter.empty(MAX_BLOCKS)
    assert bloom.size_bytes == 2**31 - 32
    hashes = np.array([0, 2**64 - 1, 2**63, 12345 << 32], np.uint64)
    bloom.insert(hashes)
    assert bloom.check(hashes).all()
    assert all(map(bloom.may_contain, hashes.tolist()))
    assert not bloom.check(random_hashes(1000, seed=3)).any()


@pytest.mark.parametrize("blocks", [0, -1, MAX_BLOCKS + 1])
def test_sizes_that_no_header_can_state_are_refused(blocks: int) -> None:
    with pytest.raises(InvalidError, match="blocks"):
        SplitBlockFilter.empty(blocks)


@pytest.mark.parametrize("size", [0, 1, 31, 33])
def test_bitsets_of_half_blocks_are_refused(size: int) -> None:
    with pytest.raises(InvalidError, match="multiple of 32"):
        SplitBlockFilter.from_bytes(bytes(size))


@pytest.mark.parametrize("arguments", [(100, 0.0), (100, 1.0), (100, math.nan), (-1, 0.1), (10**12, 0.01)])
def test_sizes_that_cannot_be_met_are_refused(arguments: tuple[int, float]) -> None:
    with pytest.raises(InvalidError):
        blocks_for(*arguments)


@given(
    one=st.lists(st.integers(0, 2**64 - 1)), other=st.lists(st.integers(0, 2**64 - 1)), blocks=st.integers(1, 9), factor=st.integers(1, 5)
)
@settings(deadline=None)
def test_union_and_fold_equal_inserting_into_the_smaller_filter(one: list[int], other: list[int], blocks: int, factor: int) -> None:
    large, small, together = SplitBlockFilter.empty(blocks * factor), SplitBlockFilter.empty(blocks), SplitBlockFilter.empty(blocks)
    large.insert(np.array(one, np.uint64))
    small.insert(np.array(other, np.uint64))
    together.insert(np.array(one + other, np.uint64))
    assert large.union(small) == small.union(large) == together


def test_filters_of_unrelated_sizes_do_not_fold() -> None:
    with pytest.raises(InvalidError, match="divisor"):
        SplitBlockFilter.empty(6).union(SplitBlockFilter.empty(4))


def test_inserting_into_a_read_filter_leaves_its_bytes_alone(engine: str) -> None:
    stored = bytes(32)
    bloom = SplitBlockFilter.from_bytes(stored)
    bloom.insert(np.array([7], np.uint64))
    assert bloom.bits_set() == 8
    assert not any(stored)


def test_a_bitset_at_an_odd_address_reads_the_same(engine: str) -> None:
    bloom = SplitBlockFilter.empty(4)
    bloom.insert(random_hashes(20, seed=12))
    shifted = SplitBlockFilter.from_bytes(memoryview(b"x" + bloom.to_bytes())[1:])
    assert shifted == bloom
    assert shifted.check(random_hashes(20, seed=12)).all()


@pytest.mark.parametrize("values", [1, 100, 20_000, 60_000])
def test_distinct_values_are_estimated_from_the_bits(values: int) -> None:
    bloom = SplitBlockFilter.empty(1024)
    hashes = random_hashes(values, seed=9)
    bloom.insert(np.concatenate([hashes, hashes]))
    assert bloom.estimated_values() == pytest.approx(values, rel=0.02)


def test_two_threads_may_check_one_filter_while_kernels_release_the_lock(engine: str) -> None:
    bloom = SplitBlockFilter.sized(10_000, 0.01)
    hashes = random_hashes(10_000, seed=11)
    bloom.insert(hashes)
    with ThreadPoolExecutor(2) as pool:
        assert all(found.all() for found in pool.map(bloom.check, [hashes] * 8))
