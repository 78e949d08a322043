"""Merged postings: what building everything at once would have given, without the dead, in parts or whole."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError, InvalidError
from needlefish.filters.compiling import BUDGET, PRICE_NS
from needlefish.format.granule_table import GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.format.run import path_of
from needlefish.index.postings import PostingsBuilder, PostingsReader, merge_postings, merged_layout, verify_postings
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store

_numbers = count()
per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
HASH = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
Granules = Sequence[tuple[GranuleRef, np.ndarray]]
INDEX = PointIndexDefinition(name="a", fields=(1,), expected_keys=50, false_reads=0.5)


@pytest.fixture(params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    before = BUDGET.available, BUDGET.spent_ns
    BUDGET.available, BUDGET.spent_ns = request.param == "compiled", PRICE_NS
    yield request.param
    BUDGET.available, BUDGET.spent_ns = before


def fresh() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://postings-merge-{next(_numbers)}"))


def chunkset(number: int) -> str:
    return file_key(f"p{number}", "file")


def granules_of(hashes: Sequence[Sequence[int] | np.ndarray], first: int = 0) -> Granules:
    """Three granules in each chunkset."""
    return [(GranuleRef(chunkset((first + at) // 3), (first + at) % 3), np.array(part, np.uint64)) for at, part in enumerate(hashes)]


def built(store: RetriedStore, granules: Granules, total_keys: int = 0, index: PointIndexDefinition = INDEX) -> RunRef:
    builder = PostingsBuilder(index, total_keys)
    for granule, hashes in granules:
        builder.add(granule, hashes)
    return builder.finish(store, SYSTEM)


def all_alive(keys: Sequence[str]) -> list[bool]:
    return [True] * len(keys)


def found_by(store: RetriedStore, refs: Sequence[RunRef], hashes: np.ndarray) -> set[tuple[int, GranuleRef]]:
    found = set()
    for ref in refs:
        reader = PostingsReader(ref)
        hits = reader.probe(store, hashes)
        ordinals, at = np.unique(hits.ordinals, return_inverse=True)
        granules = reader.granules(store, ordinals.tolist())
        found |= {(place, granules[number]) for place, number in zip(hits.places.tolist(), at.tolist(), strict=True)}
    return found


@st.composite
def inputs(draw: st.DrawFn) -> list[Granules]:
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    starts = np.cumsum([0, *sizes]).tolist()
    return [
        granules_of([draw(st.lists(HASH, max_size=15)) for _ in range(size)], start) for size, start in zip(sizes, starts, strict=False)
    ]


@given(
    drawn=inputs(), totals=st.lists(st.integers(0, 2000), min_size=4, max_size=4), dead=st.sets(st.integers(0, 6)), absent=st.lists(HASH)
)
@per_engine
def test_a_merge_is_a_build_of_what_is_alive(
    engine: str, drawn: list[Granules], totals: list[int], dead: set[int], absent: list[int]
) -> None:
    """Runs of different slots: the result has the fewest, as if all had been built with them."""
    store, asked = fresh(), []
    gone = {chunkset(number) for number in dead}

    def alive(keys: Sequence[str]) -> list[bool]:
        asked.extend(keys)
        return [key not in gone for key in keys]

    runs = [built(store, granules, total) for granules, total in zip(drawn, totals, strict=False)]
    merged = merge_postings(store, runs, alive, SYSTEM)
    assert merged.point is not None
    assert merged.point.slots == min(run.point.slots for run in runs if run.point)
    assert len(asked) == len(set(asked))
    living = [(granule, hashes) for granules in drawn for granule, hashes in granules if granule.key not in gone]
    least = replace(INDEX, expected_keys=merged.point.slots, false_reads=1.0)
    wanted = built(store, living, index=least)
    probes = np.array([hashed for granules in drawn for _, part in granules for hashed in part.tolist()] + absent, np.uint64)
    assert found_by(store, [merged], probes) == found_by(store, [wanted], probes)
    assert merged.records == wanted.records
    assert merged.point.granules == len(living)
    verify_postings(store, merged)


def many(keys: int, granules: int, seed: int) -> list[np.ndarray]:
    hashes = np.random.default_rng(seed).integers(0, 2**64, keys, np.uint64)
    # One value is in every granule, one in every third of them.
    return [
        np.append(part, np.array([5, 2**63][: 2 if number % 3 else 1], np.uint64))
        for number, part in enumerate(np.array_split(hashes, granules))
    ]


LARGE = PointIndexDefinition(name="a", fields=(1,), expected_keys=40_000)


def large_inputs(store: RetriedStore) -> tuple[list[RunRef], list[np.ndarray]]:
    hashes = [many(40_000, 900, seed=1), many(30_000, 60, seed=2), many(3_000, 300, seed=3)]
    starts = (0, 900, 960)
    totals = (40_000, 100_000, 200_000)
    runs = [built(store, granules_of(part, start), total, LARGE) for part, start, total in zip(hashes, starts, totals, strict=True)]
    return runs, [part for parts in hashes for part in parts]


def test_merging_many_pages_and_hot_values(engine: str) -> None:
    store = fresh()
    runs, hashes = large_inputs(store)
    merged = merge_postings(store, runs, all_alive, SYSTEM)
    whole = built(store, granules_of(hashes), 0, replace(LARGE, expected_keys=merged.point.slots, false_reads=1.0))  # type: ignore[union-attr]
    probes = np.unique(np.concatenate([part[::7] for part in hashes] + [np.random.default_rng(4).integers(0, 2**64, 3000, np.uint64)]))
    assert found_by(store, [merged], probes) == found_by(store, [whole], probes)
    verify_postings(store, merged)


def test_parts_together_are_the_whole_and_merge_again(engine: str) -> None:
    store = fresh()
    runs, hashes = large_inputs(store)
    layout = merged_layout(runs)
    cuts = [0, 1, layout.end // 3, layout.end - 1, layout.end]
    dead = {chunkset(7), chunkset(301)}

    def alive(keys: Sequence[str]) -> list[bool]:
        return [key not in dead for key in keys]

    whole = merge_postings(store, runs, alive, SYSTEM)
    parts = [merge_postings(store, runs, alive, SYSTEM, part) for part in pairwise(cuts)]
    assert [(part.point.first, part.point.end) for part in parts if part.point] == list(pairwise(cuts))
    assert sum(part.records for part in parts) == whole.records
    probes = np.unique(np.concatenate([part[::11] for part in hashes] + [np.array([0, 5, 2**63, 2**64 - 1], np.uint64)]))
    wanted = found_by(store, [whole], probes)
    assert found_by(store, parts, probes) == wanted
    for hashed in probes[::200]:
        single = found_by(store, parts, hashed[None])
        assert single == found_by(store, [whole], hashed[None])
    for part in parts:
        verify_postings(store, part)
    # As an input among others, parts are one run.
    other = built(store, granules_of(many(500, 10, seed=5), 5000), 0, LARGE)
    again = merge_postings(store, [*parts, other], all_alive, SYSTEM)
    same = merge_postings(store, [whole, other], all_alive, SYSTEM)
    assert store.get(path_of(again)) == store.get(path_of(same))


def test_both_engines_merge_to_the_same_bytes() -> None:
    store, written = fresh(), []
    runs, _ = large_inputs(store)
    before = BUDGET.available, BUDGET.spent_ns
    for BUDGET.available in (False, True):
        BUDGET.spent_ns = PRICE_NS
        written.append(store.get(path_of(merge_postings(store, runs, all_alive, SYSTEM))))
    BUDGET.available, BUDGET.spent_ns = before
    assert written[0] == written[1]


def test_nothing_alive_leaves_an_empty_run() -> None:
    store = fresh()
    runs, hashes = large_inputs(store)
    merged = merge_postings(store, runs, lambda keys: [False] * len(keys), SYSTEM)
    assert (merged.records, merged.point.granules) == (0, 0)  # type: ignore[union-attr]
    assert len(PostingsReader(merged).probe(store, hashes[0])) == 0
    again = merge_postings(store, [merged, runs[0]], all_alive, SYSTEM)
    assert again.records == runs[0].records


def test_alive_is_asked_in_batches() -> None:
    store, batches = fresh(), []
    granules = [(GranuleRef(chunkset(number), 0), np.array([number], np.uint64)) for number in range(9000)]

    def alive(keys: Sequence[str]) -> list[bool]:
        batches.append(len(keys))
        return [True] * len(keys)

    merge_postings(store, [built(store, granules), built(store, granules[:10])], alive, SYSTEM)
    assert sum(batches) == 9000
    assert max(batches) <= 4096


def test_wrong_inputs_are_refused() -> None:
    store = fresh()
    runs, _ = large_inputs(store)
    layout = merged_layout(runs)
    parts = [merge_postings(store, runs, all_alive, SYSTEM, part) for part in ((0, 2), (2, layout.end))]
    first = merge_postings(store, runs, all_alive, SYSTEM, (0, 1))
    with pytest.raises(InvalidError, match="begins at page 2"):
        merged_layout([first, parts[1]])
    with pytest.raises(InvalidError, match="begins at page 2"):
        merged_layout([parts[1], parts[0]])
    with pytest.raises(InvalidError, match="end at page 2"):
        merged_layout([parts[0], runs[0]])
    with pytest.raises(InvalidError, match="part="):
        merge_postings(store, runs, all_alive, SYSTEM, (3, layout.end + 1))
    with pytest.raises(InvalidError, match="runs: none"):
        merged_layout([])
    foreign = built(store, [], 0, replace(LARGE, expected_keys=77_777))
    with pytest.raises(CorruptError, match="not of one index"):
        merged_layout([runs[0], foreign])


def test_a_merge_reads_its_inputs_about_once() -> None:
    store = fresh()
    runs, _ = large_inputs(store)
    before = store.meter.snapshot()
    merge_postings(store, runs, all_alive, SYSTEM)
    used = store.meter.snapshot() - before
    assert used.bytes_read <= 1.2 * sum(run.bytes for run in runs)
    assert used.get_range.requests <= 12
