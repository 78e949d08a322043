"""Merging cuckoo runs: the result answers like one run built of everything that is alive."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError, InvalidError
from needlefish.format.granule_table import GranuleRef
from needlefish.index.cuckoo import BITS, CuckooBuilder, CuckooReader, merge_cuckoo, verify_cuckoo
from needlefish.index.point import PointMerge
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store
from needlefish.testing.damage import flip

_numbers = count()
BUCKETS = 20
RUNS = st.lists(st.lists(st.lists(st.integers(0, 25), max_size=15), max_size=5), min_size=1, max_size=4)

merge: PointMerge = merge_cuckoo


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://cuckoo-merge-{next(_numbers)}"))


def key_of(number: int) -> str:
    key = number.to_bytes(24, "big")
    return base64.b64encode(key[:8]).decode() + base64.b64encode(key[8:]).decode()


def hashes_of(values: Sequence[int]) -> np.ndarray:
    return np.array([np.random.default_rng(value).integers(0, 2**64, dtype=np.uint64) for value in values], np.uint64)


def built(store: RetriedStore, granules: Sequence[Sequence[int]], first: int = 0, bits: int = 32, buckets: int = BUCKETS) -> RunRef:
    builder = CuckooBuilder(PointIndexDefinition(name="id", fields=(1,), kind="cuckoo", bits=bits, buckets=buckets))
    for number, values in enumerate(granules, first):
        builder.add(GranuleRef(key_of(number), number), hashes_of(values))
    return builder.finish(store, SYSTEM)


def built_all(store: RetriedStore, runs: Sequence[Sequence[Sequence[int]]], bits: int = 32) -> list[RunRef]:
    """Granules are numbered over all runs."""
    starts = np.cumsum([0, *map(len, runs)]).tolist()
    return [built(store, granules, first, bits) for granules, first in zip(runs, starts, strict=False)]


def answers(store: RetriedStore, refs: Sequence[RunRef], values: Sequence[int] = range(26)) -> list[tuple[int, int]]:
    """Values and the granules they may be in, over all runs or parts."""
    found = []
    for reader in map(CuckooReader, refs):
        hits = reader.probe(store, hashes_of(values))
        granules = reader.granules(store, hits.ordinals.tolist())
        found += [(values[place], granule.granule) for place, granule in zip(hits.places.tolist(), granules, strict=True)]
    return sorted(found)


def without(*dead: int) -> Callable[[Sequence[str]], list[bool]]:
    gone = {key_of(number) for number in dead}
    return lambda keys: [key not in gone for key in keys]


@given(runs=RUNS, bits=st.sampled_from(BITS), dead=st.sets(st.integers(0, 19)), stripe=st.sampled_from([1, 60, 10_000]))
def test_a_merge_answers_like_its_inputs_without_the_dead(runs: list[list[list[int]]], bits: int, dead: set[int], stripe: int) -> None:
    store = fresh_store()
    refs = built_all(store, runs, bits)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("needlefish.index.cuckoo.file.STRIPE_BYTES", stripe)
        result = merge(store, refs, without(*dead), SYSTEM)
    assert answers(store, [result]) == [pair for pair in answers(store, refs) if pair[1] not in dead]
    verify_cuckoo(store, result)
    # Merged once more: flags are kept or acted upon, and answers stay.
    again = merge(store, [result, built(store, [[1]], first=50, bits=bits)], without(), SYSTEM)
    assert [pair for pair in answers(store, [again]) if pair[1] < 50] == answers(store, [result])


def test_what_is_alive_is_what_one_run_of_everything_would_say() -> None:
    store = fresh_store()
    granules = [[1, 2, 3], [3, 4], [5] * 9, [6, 1], [*range(25)], []]
    whole = built(store, granules)
    merged = merge(store, built_all(store, [granules[:2], granules[2:5], granules[5:]]), without(), SYSTEM)
    assert (
        answers(store, [merged]) == answers(store, [whole]) == sorted({(value, n) for n, values in enumerate(granules) for value in values})
    )
    # Filters keep the slots they were built with, in the same order: the same rows.
    assert merged.point == whole.point
    assert merged.bytes == whole.bytes


def test_few_dead_filters_are_flagged_and_many_are_left_out() -> None:
    store = fresh_store()
    refs = built_all(store, [[[1]] * 8, [[1]] * 8])
    flagged = merge(store, refs, without(0, 8), SYSTEM)
    assert flagged.records == 16
    assert answers(store, [flagged]) == [(1, number) for number in range(16) if number not in (0, 8)]
    # Two of eight are a quarter of their run: only that run is rewritten.
    rewritten = merge(store, refs, without(0, 1, 8), SYSTEM)
    assert rewritten.records == 14
    assert answers(store, [rewritten]) == [(1, number) for number in range(16) if number not in (0, 1, 8)]


def test_filters_flagged_earlier_leave_with_the_next_rewrite() -> None:
    store = fresh_store()
    flagged = merge(store, [built(store, [[1]] * 8)], without(3), SYSTEM)
    assert merge(store, [flagged], without(), SYSTEM).records == 8
    rewritten = merge(store, [flagged], without(4), SYSTEM)
    assert rewritten.records == 6
    assert answers(store, [rewritten]) == [(1, number) for number in (0, 1, 2, 5, 6, 7)]


def test_all_filters_may_be_dead() -> None:
    store = fresh_store()
    result = merge(store, built_all(store, [[[1]], [[2]]]), without(0, 1), SYSTEM)
    assert (result.records, answers(store, [result])) == (0, [])
    assert answers(store, [merge(store, [result, built(store, [[7]])], without(), SYSTEM)]) == [(7, 0)]


def test_a_granule_with_too_many_values_stays_a_candidate_until_it_is_dead() -> None:
    store = fresh_store()
    refs = [built(store, [range(2_000), [1], [2], [3], [4]], buckets=2)]
    assert (9_000, 0) in answers(store, [merge(store, refs, without(), SYSTEM)], [9_000])
    parts = [merge(store, refs, without(), SYSTEM, part) for part in ((0, 1), (1, 2))]
    assert answers(store, parts, [9_000]) == [(9_000, 0)]
    assert answers(store, [merge(store, refs, without(0), SYSTEM)], [9_000]) == []


def test_every_chunkset_is_asked_about_once() -> None:
    store = fresh_store()
    asked: list[str] = []

    def alive(keys: Sequence[str]) -> list[bool]:
        asked.extend(keys)
        return [True] * len(keys)

    merge(store, [built(store, [[1], [2]]), built(store, [[3]])], alive, SYSTEM)
    assert sorted(asked) == sorted([key_of(0), key_of(1)])


@given(runs=RUNS, cut=st.integers(1, BUCKETS - 1), dead=st.sets(st.integers(0, 19)))
def test_parts_together_are_the_whole(runs: list[list[list[int]]], cut: int, dead: set[int]) -> None:
    store = fresh_store()
    refs = built_all(store, runs)
    whole = merge(store, refs, without(*dead), SYSTEM)
    low, high = (merge(store, refs, without(*dead), SYSTEM, part) for part in ((0, cut), (cut, BUCKETS)))
    assert low.point is not None
    assert (low.point.first, low.point.end) == (0, cut)
    assert answers(store, [low, high]) == answers(store, [whole])
    one_by_one = [
        (value, ordinal)
        for value in range(26)
        for part in (low, high)
        for ordinal in CuckooReader(part).probe(store, hashes_of([value])).ordinals.tolist()
    ]
    assert len(one_by_one) == len(answers(store, [whole]))
    # Parts as inputs of the next merge, whole or cut elsewhere.
    other = built(store, [[1, 2]], first=60)
    again = merge(store, [low, high, other], without(), SYSTEM)
    assert answers(store, [again]) == answers(store, [whole, other])
    assert again.records <= whole.records + 1
    parts = [merge(store, [other, low, high], without(), SYSTEM, part) for part in ((0, 7), (7, BUCKETS))]
    assert answers(store, parts) == answers(store, [whole, other])
    if whole.point is not None and low.point is not None and high.point is not None:
        assert low.point.keys + high.point.keys == whole.point.keys


def test_parts_that_hold_what_is_wanted_are_enough() -> None:
    store = fresh_store()
    refs = built_all(store, [[[1, 2, 3]], [[3, 4]]])
    high = [merge(store, [ref], without(), SYSTEM, (8, BUCKETS)) for ref in refs]
    assert merge(store, high, without(), SYSTEM, (10, BUCKETS)).point == merge(store, refs, without(), SYSTEM, (10, BUCKETS)).point


def test_missing_parts_are_refused() -> None:
    store = fresh_store()
    ref = built(store, [[1]])
    low, high = (merge(store, [ref], without(), SYSTEM, part) for part in ((0, 5), (5, BUCKETS)))
    for refs in ([low], [high, low], [high]):
        with pytest.raises(InvalidError, match="ascending order"):
            merge(store, refs, without(), SYSTEM)


def test_parts_of_different_runs_are_no_run() -> None:
    store = fresh_store()
    one, other = built(store, [[1]]), built(store, [[1]], first=1)
    low, high = merge(store, [one], without(), SYSTEM, (0, 5)), merge(store, [other], without(), SYSTEM, (5, BUCKETS))
    with pytest.raises(CorruptError, match="other granules"):
        merge(store, [low, high], without(), SYSTEM)
    wider = merge(store, [built(store, [range(100)])], without(), SYSTEM, (5, BUCKETS))
    with pytest.raises(CorruptError, match="other slots"):
        merge(store, [low, wider], without(), SYSTEM)


def test_a_filter_that_one_part_calls_removed_is() -> None:
    store = fresh_store()
    ref = built(store, [[1]] * 8)
    low, high = merge(store, [ref], without(2), SYSTEM, (0, 5)), merge(store, [ref], without(), SYSTEM, (5, BUCKETS))
    assert answers(store, [merge(store, [low, high], without(), SYSTEM)]) == [(1, number) for number in range(8) if number != 2]


def test_the_newest_version_is_kept() -> None:
    store = fresh_store()
    refs = [replace(built(store, [[1]]), version=version) for version in (4, 9, 2)]
    assert merge(store, refs, without(), SYSTEM).version == 9
    assert merge(store, [built(store, [[1]])], without(), SYSTEM).version is None


def test_runs_that_do_not_fit_together_are_refused() -> None:
    store = fresh_store()
    ref = built(store, [[1]])
    for other in (
        built(store, [[1]], buckets=21),
        built(store, [[1]], bits=16),
        replace(ref, kind="index/other"),
        replace(ref, point=None),
    ):
        with pytest.raises(InvalidError, match="same buckets and bits"):
            merge(store, [ref, other], without(), SYSTEM)
    with pytest.raises(InvalidError, match=r"runs=\[\]"):
        merge(store, [], without(), SYSTEM)
    for part in ((0, 0), (5, 21), (-1, 3)):
        with pytest.raises(InvalidError, match="part="):
            merge(store, [ref], without(), SYSTEM, part)


def test_a_damaged_input_raises_rather_than_loses() -> None:
    store = fresh_store()
    ref = built(store, [[1, 2], [3]])
    for at in range(ref.bytes - ref.header_bytes):
        path = f"_needlefish/index/id/{ref.id}.cuckoo"
        flip(store, path, at)
        with pytest.raises(CorruptError):
            merge(store, [ref], without(), SYSTEM)
        flip(store, path, at)
    assert answers(store, [merge(store, [ref], without(), SYSTEM)]) == [(1, 0), (2, 0), (3, 1)]
