"""The false positive rate is 2 b / 2^bits x occupancy for every number of buckets: hashes that are correlated raise it."""

import math

import numpy as np
import pyarrow as pa
import pytest

from needlefish.filters.compiling import BUDGET, PRICE_NS
from needlefish.filters.cuckoo import build_filter, false_rate
from needlefish.filters.cuckoo_hash import places_of
from needlefish.filters.hash import hash_array

PROBES = 400_000


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BUDGET, "spent_ns", PRICE_NS)


def random_hashes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def measured(hashes: np.ndarray, probes: np.ndarray, buckets: int, bits: int) -> tuple[float, float]:
    """The share of probes that match, and what is predicted for the filter as it was built."""
    built = build_filter(hashes, buckets, bits)
    places = places_of(probes, buckets, bits)
    wanted = places.fingerprints[:, None]
    found = (built.table[places.first] == wanted).any(axis=1) | (built.table[places.second] == wanted).any(axis=1)
    return float(found.mean()), false_rate(bits, built.slots, built.keys / built.table.size)


def assert_close(rate: float, predicted: float, probes: int, filters: float) -> None:
    """Five standard deviations of the probes, and five of what the keys themselves happen to be."""
    assert rate == pytest.approx(predicted, abs=5 * math.sqrt(predicted / probes) + 5 * predicted / math.sqrt(filters))


# Small numbers, powers of two and their neighbours, primes, the published number, and the pair of which one was bad elsewhere.
BUCKETS = [7, 16, 17, 31, 64, 100, 127, 255, 256, 257, 1000, 1024, 2047, 2048, 3998, 3999, 4000, 4001, 4096, 7919, 8191, 8192, 16381, 38000]


@pytest.mark.parametrize("buckets", BUCKETS)
@pytest.mark.parametrize("bits", [8, 12])
def test_the_rate_is_the_same_for_every_number_of_buckets(buckets: int, bits: int) -> None:
    keys = round(buckets * 2.6)
    rate, predicted = measured(random_hashes(keys, seed=buckets), random_hashes(PROBES, seed=1), buckets, bits)
    assert_close(rate, predicted, PROBES, keys)


@pytest.mark.parametrize("buckets", [1, 2, 3])
def test_buckets_that_are_each_others_partners_only_lower_it(buckets: int) -> None:
    rate, predicted = measured(random_hashes(3 * buckets, seed=5), random_hashes(PROBES, seed=1), buckets, 8)
    assert 0 < rate < 1.5 * predicted


@pytest.mark.parametrize("buckets", [3999, 4000, 4096, 38000])
def test_sixteen_bits(buckets: int) -> None:
    """As published: 7.4e-5 for each filter."""
    keys, probes = round(buckets * 2.63), 4_000_000
    rate, predicted = measured(random_hashes(keys, seed=6), random_hashes(probes, seed=7), buckets, 16)
    assert predicted == pytest.approx(8.0e-5, rel=0.02)
    assert_close(rate, predicted, probes, keys)


@pytest.mark.parametrize("buckets", [3999, 4000, 4096])
def test_keys_that_count_up(buckets: int) -> None:
    """Real keys are numbers in a row; their hashes must not show it."""
    keys = round(buckets * 2.6)
    hashes = hash_array(pa.array(range(keys + PROBES), pa.int64())).hashes
    rate, predicted = measured(hashes[:keys], hashes[keys:], buckets, 12)
    assert_close(rate, predicted, PROBES, keys)
