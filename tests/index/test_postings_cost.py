"""What postings cost: bits per key, false reads, and requests and bytes of a probe, counted."""

import math
from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest

from needlefish.config import StoreConfig
from needlefish.format.granule_table import GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.index.postings import PostingsBuilder, PostingsReader, predicted_bits
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store

_numbers = count()
_KEY = file_key("p", "file")
PROBE_BYTES = 16 * 1024


def fresh() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://postings-cost-{next(_numbers)}"))


def random_hashes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def built(store: RetriedStore, hashes: Sequence[np.ndarray], false_reads: float = 0.1, expected_keys: int = 0) -> RunRef:
    keys = sum(map(len, hashes))
    index = PointIndexDefinition(name="a", fields=(1,), expected_keys=expected_keys or keys, false_reads=false_reads)
    builder = PostingsBuilder(index, keys)
    for number, part in enumerate(hashes):
        builder.add(GranuleRef(_KEY, number), part)
    return builder.finish(store, SYSTEM)


@pytest.mark.parametrize(
    ("keys", "granules", "false_reads"),
    [(100_000, 12, 0.1), (100_000, 100, 0.01), (400_000, 400, 1.0), (1_000_000, 122, 0.1), (1_000_000, 122, 0.02), (2_000_000, 2_000, 0.1)],
)
def test_bits_per_key_are_as_predicted(keys: int, granules: int, false_reads: float) -> None:
    ref = built(fresh(), np.array_split(random_hashes(keys, seed=keys), granules), false_reads)
    # The granule table is part of the file, and weighs the more the fewer keys a granule has.
    table_bits = 32 * 8 * granules / keys
    assert ref.bytes * 8 / keys == pytest.approx(predicted_bits(granules, false_reads) + table_bits, abs=0.5)
    assert keys / granules < 5_000 or ref.bytes * 8 / keys <= predicted_bits(granules, false_reads) + 0.6


@pytest.mark.parametrize("false_reads", [0.01, 0.1, 0.37, 2.0])
def test_false_reads_are_as_declared(false_reads: float) -> None:
    store = fresh()
    reader = PostingsReader(built(store, np.array_split(random_hashes(200_000, seed=1), 40), false_reads))
    probes = 400_000
    found = len(reader.probe(store, random_hashes(probes, seed=2)))
    # Hits of one probe are a Poisson number, and its slots' fill is another: five deviations of both.
    tolerance = 5 * (math.sqrt(false_reads / probes) + false_reads / math.sqrt(200_000))
    # Two keys of one granule in one slot are one pair.
    assert found / probes == pytest.approx(false_reads * (1 - false_reads / 40 / 2), abs=tolerance)


def probe_costs(store: RetriedStore, ref: RunRef, hashes: Sequence[int]) -> list[tuple[int, int]]:
    """Requests and bytes of cold single probes."""
    costs = []
    for hashed in hashes:
        before = store.meter.snapshot()
        PostingsReader(ref).probe(store, np.array([hashed], np.uint64))
        used = store.meter.snapshot() - before
        costs.append((used.requests, used.bytes_read))
    return costs


def test_a_probe_costs_the_same_for_a_thousand_times_the_granules() -> None:
    averages = {}
    for granules in (1_000, 30_000, 1_000_000):
        store = fresh()
        ref = built(store, list(random_hashes(granules * 2, seed=3).reshape(granules, 2)), expected_keys=2**27)
        if ref.bytes > PROBE_BYTES:
            costs = probe_costs(store, ref, random_hashes(100, seed=4).tolist())
            assert max(requests for requests, _ in costs) <= 2
            assert max(size for _, size in costs) <= PROBE_BYTES
            averages[granules] = sum(size for _, size in costs) / 100
    assert len(averages) == 3
    assert max(averages.values()) < 1.5 * min(averages.values())


def test_what_a_probe_is_expected_to_cost_is_what_it_costs() -> None:
    store = fresh()
    ref = built(store, np.array_split(random_hashes(300_000, seed=5), 40))
    costs = probe_costs(store, ref, random_hashes(50, seed=6).tolist())
    expected = PostingsReader(ref).expected_of_probe(1)
    assert {requests for requests, _ in costs} == {expected.requests}
    assert sum(size for _, size in costs) / 50 == pytest.approx(expected.bytes, rel=0.1)
    before = store.meter.snapshot()
    PostingsReader(ref).probe(store, random_hashes(5_000, seed=7))
    used = store.meter.snapshot() - before
    # Neighbours are read together, so that requests are fewer.
    assert used.bytes_read == pytest.approx(PostingsReader(ref).expected_of_probe(5_000).bytes, rel=0.1)
    assert used.requests <= 4


def test_a_small_run_is_read_once() -> None:
    store = fresh()
    ref = built(store, np.array_split(random_hashes(2_000, seed=8), 4))
    assert ref.bytes <= PROBE_BYTES
    reader = PostingsReader(ref)
    assert (reader.expected_of_probe(1).requests, reader.expected_of_probe(9).bytes) == (1, ref.bytes)
    before = store.meter.snapshot()
    for hashed in random_hashes(20, seed=9):
        reader.granules(store, reader.probe(store, hashed[None]).ordinals.tolist())
    used = store.meter.snapshot() - before
    assert (used.requests, used.bytes_read) == (1, ref.bytes)
    assert reader.expected_of_probe(1).requests == 0


def test_a_warm_reader_reads_pages_alone_and_keeps_the_last_ones() -> None:
    store = fresh()
    ref = built(store, np.array_split(random_hashes(600_000, seed=10), 70))
    reader, asked = PostingsReader(ref), random_hashes(2_000, seed=11)
    reader.probe(store, asked)
    before = store.meter.snapshot()
    for hashed in asked[:50].tolist() * 2:
        reader.probe(store, np.array([hashed], np.uint64))
    assert (store.meter.snapshot() - before).requests <= 50


GRANULES = 3_000
_rng = np.random.default_rng(12)
_VALUES = random_hashes(100_000, seed=13)


def zipf() -> list[np.ndarray]:
    return [_VALUES[np.minimum(_rng.zipf(1.3, 200), 100_000) - 1] for _ in range(GRANULES)]


def shared_by(granules: int) -> list[np.ndarray]:
    """Every value in so many granules, one after the other."""
    values = random_hashes(400_000 // granules, seed=14)
    pairs = np.repeat(values, granules)
    return list(np.resize(pairs, (GRANULES, -(-len(pairs) // GRANULES))))


def scattered_in(granules: int) -> list[np.ndarray]:
    """Every value in so many granules anywhere."""
    values = np.repeat(random_hashes(600_000 // granules, seed=15), granules)
    return list(np.array_split(_rng.permutation(values), GRANULES))


SKEWED = {
    "constant": lambda: [np.full(50, 99, np.uint64)] * GRANULES,
    "two values": lambda: [_VALUES[_rng.integers(0, 2, 50)] for _ in range(GRANULES)],
    "forty values": lambda: [_VALUES[_rng.integers(0, 40, 20)] for _ in range(GRANULES)],
    "constant and unique": lambda: [np.append(random_hashes(100, seed=n), np.uint64(99)) for n in range(GRANULES)],
    "zipf": zipf,
    "twice": lambda: scattered_in(2),
    "in 200 granules": lambda: scattered_in(200),
    "in 256 granules": lambda: scattered_in(256),
    "in 300 granules": lambda: scattered_in(300),
    "in 256 neighbours": lambda: shared_by(256),
}


@pytest.mark.parametrize("name", SKEWED)
def test_skewed_columns_keep_probes_small(name: str) -> None:
    """No false negative, and no page that a cold probe would read more than 16 KiB for; a hot list is one request more."""
    store, hashes = fresh(), SKEWED[name]()
    ref = built(store, hashes)
    reader = PostingsReader(ref)
    assert ref.point is not None
    refs = reader._file.page_refs(store, range(ref.point.end))
    # With the directory's stretch of 1,536 bytes.
    assert max(page.length for page in refs) + 1_536 <= PROBE_BYTES
    pairs = len(np.unique(np.concatenate(hashes)))
    assert ref.bytes <= 40 * GRANULES + 8 * max(pairs, ref.records)
    for number in (0, 1, GRANULES // 2, GRANULES - 1):
        asked = np.unique(hashes[number])
        found = reader.probe(store, asked)
        assert sorted(found.places[found.ordinals == number].tolist()) == list(range(len(asked)))
    heavy = [int(value) for value in hashes[0][:5]]
    costs = probe_costs(store, ref, heavy)
    assert max(requests for requests, _ in costs) <= 3


def test_a_constant_column_takes_no_more_than_its_table_and_directory() -> None:
    ref = built(fresh(), [np.full(10, 7, np.uint64)] * 20_000)
    assert ref.records == 20_000
    assert ref.bytes - 32 * 20_000 < 1_000


def test_values_that_happen_to_meet_in_one_page_do_not_crowd_it() -> None:
    """Forty values of 250 granules each in neighbouring slots: none is hot by itself, together they are 17 KiB."""
    store, rng = fresh(), np.random.default_rng(16)
    unique = random_hashes(GRANULES * 200, seed=17).reshape(GRANULES, 200)
    meeting = np.uint64(2**63) + np.arange(40, dtype=np.uint64) * np.uint64(2**64 // (GRANULES * 2000))
    members = [rng.choice(GRANULES, 250, replace=False) for _ in meeting]
    hashes = [np.append(unique[number], meeting[[number in listed for listed in members]]) for number in range(GRANULES)]
    ref = built(store, hashes)
    reader = PostingsReader(ref)
    assert ref.point is not None
    assert max(page.length for page in reader._file.page_refs(store, range(ref.point.end))) < 8 * 1024
    found = reader.probe(store, meeting)
    for place, listed in enumerate(members):
        single = reader.probe(store, meeting[place : place + 1]).ordinals
        assert set(listed.tolist()) <= set(single.tolist())
        assert single.tolist() == found.ordinals[found.places == place].tolist()
