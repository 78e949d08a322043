"""What every kind of point index must do, as tests to inherit: `class TestMine(PointContract)` with a fixture `index`.

The fixture is the definition of an index of that kind. The numbers are those of the contract in `needlefish.index.point`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError
from needlefish.format.granule_table import GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.format.run import path_of
from needlefish.index.point import Hashes, PointReader
from needlefish.index.point_kinds import merged_end, point_builder, point_merge, point_reader, verify_point_run
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store

# What an index was told: the hashes of each granule.
Granules = Mapping[GranuleRef, Sequence[int]]

_LARGEST = 2**64 - 1
_THREADS = 8
_numbers = count()

# Few values, so that granules share them; the ends of the range; and the rest.
_HASHES = st.one_of(st.sampled_from([0, 1, _LARGEST, _LARGEST - 1, 2**63, 7]), st.integers(0, _LARGEST))
_GRANULE = st.lists(_HASHES, max_size=20)
_CHUNKSETS = st.lists(st.lists(_GRANULE, min_size=1, max_size=4), max_size=5)
# The store is a new one in each example, so that the fixture has nothing to reset.
_OF_A_FIXTURE = settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors])


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://point-contract-{next(_numbers)}"))


def chunkset_key(number: int) -> str:
    return file_key("part=1", f"file-{number}")


def granules_of(chunksets: Sequence[Sequence[Sequence[int]]], first: int = 0) -> dict[GranuleRef, Sequence[int]]:
    """Chunksets by number, each a list of granules, each a list of hashes."""
    return {
        GranuleRef(chunkset_key(number), granule): hashes
        for number, chunkset in enumerate(chunksets, first)
        for granule, hashes in enumerate(chunkset)
    }


def build(store: RetriedStore, index: PointIndexDefinition, granules: Granules) -> RunRef:
    builder = point_builder(index, 0)
    for granule, hashes in granules.items():
        builder.add(granule, as_hashes(hashes))
    return builder.finish(store, SYSTEM)


def as_hashes(hashes: Sequence[int]) -> Hashes:
    return np.array(hashes, np.uint64)


def all_alive(keys: Sequence[str]) -> list[bool]:
    return [True] * len(keys)


def alive_but(dead: set[int]) -> Callable[[Sequence[str]], list[bool]]:
    gone = {chunkset_key(number) for number in dead}
    return lambda keys: [key not in gone for key in keys]


def merge(store: RetriedStore, runs: Sequence[RunRef], alive: Callable[[Sequence[str]], list[bool]] = all_alive) -> RunRef:
    return point_merge(runs[0])(store, runs, alive, SYSTEM)


def merge_in_parts(store: RetriedStore, runs: Sequence[RunRef], cuts: Sequence[float]) -> list[RunRef]:
    """The run that these become, cut at shares of its pages or buckets."""
    end = merged_end(runs)
    places = sorted({0, end, *(round(cut * end) for cut in cuts)})
    return [point_merge(runs[0])(store, runs, all_alive, SYSTEM, part) for part in zip(places[:-1], places[1:], strict=True)]


def found_by(store: RetriedStore, readers: Sequence[PointReader], hashes: Sequence[int]) -> list[set[GranuleRef]]:
    """For each hash the granules that any of the readers names."""
    found: list[set[GranuleRef]] = [set() for _ in hashes]
    for reader in readers:
        hits = reader.probe(store, as_hashes(hashes))
        refs = reader.granules(store, hits.ordinals.tolist())
        for place, ref in zip(hits.places.tolist(), refs, strict=True):
            found[place].add(ref)
    return found


def check_no_miss(store: RetriedStore, refs: Sequence[RunRef], granules: Granules) -> None:
    """Every granule is found by every hash that it was added with, and nothing is named that was never added."""
    asked = sorted({hashed for hashes in granules.values() for hashed in hashes} | {0, _LARGEST})
    found = dict(zip(asked, found_by(store, [point_reader(ref) for ref in refs], asked), strict=True))
    for granule, hashes in granules.items():
        for hashed in hashes:
            assert granule in found[hashed], f"{granule} has {hashed} and was not found"
    assert set().union(*found.values()) <= set(granules)


def sample_granules(chunksets: int = 12, granules: int = 4, keys: int = 60, seed: int = 3) -> dict[GranuleRef, Sequence[int]]:
    """Random hashes, and the hash 99 in every granule."""
    rng = np.random.default_rng(seed)
    made = [[[*rng.integers(0, 2**64, keys, np.uint64).tolist(), 99] for _ in range(granules)] for _ in range(chunksets)]
    return granules_of(made)


def damages(data: bytes, step: int) -> Iterator[tuple[str, bytes | None]]:
    """Every kind of harm to an object's bytes, with its name; None stands for an object that is gone."""
    yield "gone", None
    for size in (0, 1, len(data) // 3, len(data) // 2, len(data) - 1):
        yield f"cut to {size}", data[:size]
    for at in range(0, len(data), step):
        yield f"flipped at {at}", data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]
    yield "all zeros", bytes(len(data))


class PointContract:
    """Inherited by the test class of each kind."""

    @_OF_A_FIXTURE
    @given(chunksets=_CHUNKSETS)
    def test_1_a_new_run_never_misses(self, index: PointIndexDefinition, chunksets: list[list[list[int]]]) -> None:
        store, granules = fresh_store(), granules_of(chunksets)
        ref = build(store, index, granules)
        assert ref.point is not None
        assert (ref.kind, ref.point.kind, ref.point.granules) == (index.run_kind, index.kind, len(granules))
        check_no_miss(store, [ref], granules)
        verify_point_run(store, ref)

    @_OF_A_FIXTURE
    @given(batches=st.lists(_CHUNKSETS, min_size=2, max_size=5), first=st.integers(1, 4))
    def test_1_merges_of_merges_never_miss(self, index: PointIndexDefinition, batches: list[list[list[list[int]]]], first: int) -> None:
        store = fresh_store()
        each = [granules_of(batch, 100 * number) for number, batch in enumerate(batches)]
        runs = [build(store, index, granules) for granules in each]
        again = merge(store, [merge(store, runs[:first]), *runs[first:]])
        check_no_miss(store, [again], {ref: hashes for granules in each for ref, hashes in granules.items()})
        verify_point_run(store, again)

    @_OF_A_FIXTURE
    @given(batches=st.lists(_CHUNKSETS, min_size=1, max_size=3), cuts=st.lists(st.floats(0, 1), max_size=4))
    def test_1_parts_together_never_miss(
        self, index: PointIndexDefinition, batches: list[list[list[list[int]]]], cuts: list[float]
    ) -> None:
        store = fresh_store()
        each = [granules_of(batch, 100 * number) for number, batch in enumerate(batches)]
        parts = merge_in_parts(store, [build(store, index, granules) for granules in each], cuts)
        everything = {ref: hashes for granules in each for ref, hashes in granules.items()}
        check_no_miss(store, parts, everything)
        check_no_miss(store, [merge(store, parts)], everything)

    @_OF_A_FIXTURE
    @given(batches=st.lists(_CHUNKSETS, min_size=1, max_size=3), dead=st.sets(st.sampled_from([0, 1, 2, 100, 101, 200])))
    def test_1_dead_chunksets_never_hit_and_all_others_do(
        self, index: PointIndexDefinition, batches: list[list[list[list[int]]]], dead: set[int]
    ) -> None:
        store = fresh_store()
        each = [granules_of(batch, 100 * number) for number, batch in enumerate(batches)]
        merged = merge(store, [build(store, index, granules) for granules in each], alive_but(dead))
        gone = {chunkset_key(number) for number in dead}
        left = {ref: hashes for granules in each for ref, hashes in granules.items() if ref.key not in gone}
        check_no_miss(store, [merged], left)
        # What a merge forgot stays forgotten, whatever later ones are told.
        check_no_miss(store, [merge(store, [merged])], left)

    def test_1_a_hash_that_everything_has(self, index: PointIndexDefinition) -> None:
        store = fresh_store()
        granules = granules_of([[[99]] * 20] * 30)
        ref = merge(store, [build(store, index, granules), build(store, index, granules_of([[[99, 5]]], 1_000))])
        (found,) = found_by(store, [point_reader(ref)], [99])
        assert found == {*granules, GranuleRef(chunkset_key(1_000), 0)}

    def test_2_damage_gives_the_right_answer_or_an_error(self, index: PointIndexDefinition) -> None:
        store, granules = fresh_store(), sample_granules()
        ref = build(store, index, granules)
        data = store.get(path_of(ref))
        errors = 0
        for name, harmed in damages(data, step=max(1, len(data) // 120)):
            if harmed is None:
                store.delete([path_of(ref)])
            else:
                store.put(path_of(ref), harmed)
            errors += _right_or_corrupt(store, ref, granules, name)
            with pytest.raises(CorruptError):
                verify_point_run(store, ref)
        assert errors > 20, "most bytes decide something"
        store.put(path_of(ref), data)
        verify_point_run(store, ref)
        check_no_miss(store, [ref], granules)

    def test_2_a_merge_of_a_damaged_run_misses_nothing_or_fails(self, index: PointIndexDefinition) -> None:
        store, granules = fresh_store(), sample_granules(chunksets=4)
        ref, other = build(store, index, granules), build(store, index, granules_of([[[1, 2, 3]]], 500))
        data = store.get(path_of(ref))
        failed = 0
        for _, harmed in damages(data, step=max(1, len(data) // 60)):
            store.put(path_of(ref), harmed or b"")
            try:
                merged = merge(store, [ref, other])
            except CorruptError:
                failed += 1
                continue
            check_no_miss(store, [merged], {**granules, **granules_of([[[1, 2, 3]]], 500)})
        assert failed > 20

    def test_many_hashes_at_once_hit_what_each_hits_alone(self, index: PointIndexDefinition) -> None:
        store, granules = fresh_store(), sample_granules()
        known = [hashed for hashes in granules.values() for hashed in hashes][::7]
        absent = np.random.default_rng(8).integers(0, 2**64, 500, np.uint64).tolist()
        asked = [*known, *absent, *known[:5], 0, _LARGEST]
        for ref in (build(store, index, granules), *merge_in_parts(store, [build(store, index, granules)], [0.3, 0.7])):
            reader = point_reader(ref)
            many = reader.probe(store, as_hashes(asked))
            assert list(zip(many.places, many.ordinals, strict=True)) == sorted(set(zip(many.places, many.ordinals, strict=True)))
            singles = [point_reader(ref).probe(store, as_hashes([hashed])) for hashed in asked]
            assert all(not single.places.any() for single in singles)
            for place, single in enumerate(singles):
                assert single.ordinals.tolist() == many.ordinals[many.places == place].tolist()
            assert len(reader.probe(store, as_hashes([]))) == 0

    def test_a_reader_may_be_shared_by_threads(self, index: PointIndexDefinition) -> None:
        store, granules = fresh_store(), sample_granules(chunksets=30)
        ref = build(store, index, granules)
        shared = point_reader(ref)
        some = [(granule, hashed) for granule, hashes in granules.items() for hashed in hashes[::9]]

        def ask(number: int) -> int:
            hits = 0
            for granule, hashed in some[number::_THREADS]:
                (found,) = found_by(store, [shared], [hashed])
                hits += granule in found
            return hits

        with ThreadPoolExecutor(_THREADS) as pool:
            assert sum(pool.map(ask, range(_THREADS))) == len(some)

    def test_3_a_probe_asks_for_a_few_ranges_whatever_the_number_of_granules(self, index: PointIndexDefinition) -> None:
        requests: list[int] = []
        for chunksets in (4, 400):
            store = fresh_store()
            ref = build(store, index, sample_granules(chunksets=chunksets, granules=2, keys=20))
            worst = 0
            for hashed in _probes(40):
                asking = store.apart()
                reader = point_reader(ref)
                reader.probe(asking, hashed)
                worst = max(worst, asking.meter.snapshot().requests)
                again = asking.meter.snapshot()
                reader.probe(asking, hashed)
                assert (asking.meter.snapshot() - again).requests <= 2
            requests.append(worst)
        assert max(requests) <= 3, "two rows and a table, or a stretch of directory, a page and a hot list"

    def test_4_whoever_asks_is_charged(self, index: PointIndexDefinition) -> None:
        store, granules = fresh_store(), sample_granules()
        reader = point_reader(build(store, index, granules))
        mine, yours = store.apart(), store.apart()
        reader.probe(mine, as_hashes([99]))
        before = mine.meter.snapshot()
        reader.granules(yours, [0, 1, 40])
        assert before.requests > 0
        assert mine.meter.snapshot() == before

    def test_the_same_hashes_make_the_same_bytes(self, index: PointIndexDefinition) -> None:
        store, granules = fresh_store(), sample_granules()
        first, second = build(store, index, granules), build(store, index, granules)
        assert store.get(path_of(first)) == store.get(path_of(second))

    def test_repeated_hashes_are_one(self, index: PointIndexDefinition) -> None:
        store = fresh_store()
        ref = build(store, index, granules_of([[[5] * 1_000, [5, 6] * 500]]))
        assert ref.point is not None
        assert ref.point.keys <= 3
        assert found_by(store, [point_reader(ref)], [5]) == [{GranuleRef(chunkset_key(0), 0), GranuleRef(chunkset_key(0), 1)}]


def _probes(number: int) -> Iterator[NDArray[np.uint64]]:
    yield as_hashes([99])
    for hashed in np.random.default_rng(4).integers(0, 2**64, number, np.uint64).tolist():
        yield as_hashes([hashed])


def _right_or_corrupt(store: RetriedStore, ref: RunRef, granules: Granules, name: str) -> int:
    """How many of some questions ended with an error; any other answer must be right."""
    errors = 0
    for number, (granule, hashes) in enumerate(list(granules.items())[::5]):
        asked = hashes[number : number + 1] if number % 2 else hashes
        try:
            found = found_by(store, [point_reader(ref)], asked)
        except CorruptError:
            errors += 1
            continue
        assert all(granule in some for some in found), f"{name}: {granule} was missed"
        assert set().union(*found) <= set(granules), f"{name}: a granule that nobody added"
    return errors
