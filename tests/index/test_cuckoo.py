"""Cuckoo runs: a probe finds every granule that has a value, with two small reads, and never a removed one."""

import base64
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.filters.compiling import BUDGET, PRICE_NS
from needlefish.filters.cuckoo_hash import place_of
from needlefish.format.granule_table import WHOLE_FILE, GranuleRef
from needlefish.format.run import path_of
from needlefish.index.cost import Cost
from needlefish.index.cuckoo import BITS, CuckooBuilder, CuckooReader, verify_cuckoo
from needlefish.index.point import Hits, PointBuilder, PointReader
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, Usage, open_store

_numbers = count()

# Values of a few granules, small enough to be repeated in several.
GRANULES = st.lists(st.lists(st.integers(0, 30), max_size=25), max_size=6)


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://cuckoo-{next(_numbers)}"))


@pytest.fixture
def store(tmp_path: Path) -> RetriedStore:
    """Files: their ranges are never joined, so that requests can be counted."""
    return open_store(StoreConfig(uri=str(tmp_path)))


@pytest.fixture(params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(BUDGET, "available", request.param == "compiled")
    monkeypatch.setattr(BUDGET, "spent_ns", PRICE_NS)
    return str(request.param)


def definition(buckets: int, bits: int = 16) -> PointIndexDefinition:
    return PointIndexDefinition(name="id", fields=(1,), kind="cuckoo", bits=bits, buckets=buckets)


def granule(number: int) -> GranuleRef:
    """Granules of files with two each."""
    key = number.to_bytes(24, "big")
    return GranuleRef(base64.b64encode(key[:8]).decode() + base64.b64encode(key[8:]).decode(), number % 2)


def hashes_of(values: Sequence[int]) -> np.ndarray:
    """Well mixed, and the same for the same value."""
    return np.array([np.random.default_rng(value).integers(0, 2**64, dtype=np.uint64) for value in values], np.uint64)


def built(store: RetriedStore, granules: Sequence[Sequence[int]], buckets: int = 20, bits: int = 16, first: int = 0) -> RunRef:
    builder = CuckooBuilder(definition(buckets, bits))
    for number, values in enumerate(granules, first):
        builder.add(granule(number), hashes_of(values))
    return builder.finish(store, SYSTEM)


def pairs(hits: Hits) -> list[tuple[int, int]]:
    return list(zip(hits.places.tolist(), hits.ordinals.tolist(), strict=True))


def usage(store: RetriedStore, reader: CuckooReader, hashes: np.ndarray) -> Usage:
    before = store.meter.snapshot()
    reader.probe(store, hashes)
    return store.meter.snapshot() - before


@given(granules=GRANULES, buckets=st.integers(1, 30), bits=st.sampled_from(BITS))
def test_a_probe_finds_every_granule_that_has_the_value(granules: list[list[int]], buckets: int, bits: int) -> None:
    store = fresh_store()
    ref = built(store, granules, buckets, bits)
    reader = CuckooReader(ref)
    hashes = hashes_of(range(31))
    single = [(value, ordinal) for value in range(31) for _, ordinal in pairs(reader.probe(store, hashes[value : value + 1]))]
    assert {(value, number) for number, values in enumerate(granules) for value in values} <= set(single)
    # In order, no pair twice, and the same for many hashes at once.
    assert single == sorted(set(single)) == pairs(CuckooReader(ref).probe(store, hashes))
    if bits == 32:
        assert set(single) == {(value, number) for number, values in enumerate(granules) for value in values}
    assert reader.granules(store, range(len(granules))) == [granule(number) for number in range(len(granules))]
    verify_cuckoo(store, ref)


def test_it_is_what_the_seam_asks_for() -> None:
    builder: PointBuilder = CuckooBuilder(definition(5))
    builder.add(GranuleRef(granule(1).key, WHOLE_FILE), hashes_of([1, 1, 2]))
    ref = builder.finish(fresh_store(), SYSTEM)
    reader: PointReader = CuckooReader(ref)
    assert builder.keys == 2
    assert (ref.kind, ref.records, ref.footer_checksum, ref.version) == ("index/id", 1, None, None)
    assert ref.point is not None
    assert (ref.point.keys, ref.point.granules, ref.point.first, ref.point.end) == (2, 1, 0, 5)
    assert path_of(ref) == f"_needlefish/index/id/{ref.id}.cuckoo"
    assert reader.ref == ref


def test_a_probe_is_two_ranges_of_one_row_each(store: RetriedStore) -> None:
    ref = built(store, [range(40), range(40, 80), range(5)], buckets=50)
    assert ref.point is not None
    reader = CuckooReader(ref)
    wanted = next(value for value in range(99) if len(set(place_of(int(hashes_of([value])[0]), 50, 16)[:2])) == 2)
    expected = reader.expected_of_probe(1)
    first = usage(store, reader, hashes_of([wanted]))
    assert expected == Cost(requests=first.requests, bytes=first.bytes_read) == Cost(requests=3, bytes=2 * ref.point.row_bytes + 14)
    warm = usage(store, reader, hashes_of([wanted]))
    assert reader.expected_of_probe(1) == Cost(requests=warm.requests, bytes=warm.bytes_read)
    assert (warm.requests, warm.bytes_read) == (2, 2 * ref.point.row_bytes)


def test_buckets_that_are_one_are_read_once(store: RetriedStore) -> None:
    ref = built(store, [range(5)], buckets=1)
    assert ref.point is not None
    reader = CuckooReader(ref)
    reader.probe(store, hashes_of([1]))
    warm = usage(store, reader, hashes_of([1]))
    assert (warm.requests, warm.bytes_read) == (1, ref.point.row_bytes)


def test_many_hashes_read_each_row_once(store: RetriedStore) -> None:
    ref = built(store, [range(40), range(40, 80)], buckets=50)
    assert ref.point is not None
    reader = CuckooReader(ref)
    reader.probe(store, hashes_of([1]))
    dense = usage(store, reader, hashes_of(range(1_000)))
    assert (dense.requests, dense.bytes_read) == (1, 50 * ref.point.row_bytes)


def test_rows_far_apart_are_read_alone(store: RetriedStore) -> None:
    ref = built(store, [range(40)], buckets=5_000)
    assert ref.point is not None
    reader = CuckooReader(ref)
    reader.probe(store, hashes_of([1]))
    few = usage(store, reader, hashes_of([1, 2, 3]))
    assert (few.requests, few.bytes_read) == (6, 6 * ref.point.row_bytes)
    assert reader.expected_of_probe(3) == Cost(requests=6, bytes=6 * ref.point.row_bytes)


def test_stripes_give_what_one_pass_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    store = fresh_store()
    reader = CuckooReader(built(store, [range(40), range(20, 60), range(200)], buckets=50))
    hashes = hashes_of(range(300))
    whole = pairs(reader.probe(store, hashes))
    monkeypatch.setattr("needlefish.index.cuckoo.file.STRIPE_BYTES", 200)
    assert pairs(reader.probe(store, hashes)) == whole
    assert len(whole) >= 280


def test_filters_of_different_slots_keep_their_own(engine: str) -> None:
    store = fresh_store()
    sizes = [3, 500, 0, 60, 900, 1]
    granules = [range(10_000 * number, 10_000 * number + size) for number, size in enumerate(sizes)]
    reader = CuckooReader(built(store, granules, buckets=100, bits=32))
    values = [value for values in granules for value in values]
    owners = [number for number, values in enumerate(granules) for _ in values]
    assert pairs(reader.probe(store, hashes_of(values))) == list(enumerate(owners))


def test_a_granule_with_too_many_values_is_always_a_candidate(engine: str) -> None:
    store = fresh_store()
    ref = built(store, [range(3), range(2_000), range(2)], buckets=2)
    reader = CuckooReader(ref)
    assert pairs(reader.probe(store, hashes_of([5_000]))) == [(0, 1)]
    assert pairs(reader.probe(store, hashes_of([5_000, 2]))) == [(0, 1), (1, 0), (1, 1)]


def test_granules_close_together_are_one_read(store: RetriedStore) -> None:
    reader = CuckooReader(built(store, [[1]] * 200, buckets=3))
    before = store.meter.snapshot()
    wanted = [150, 3, 5, 3, 160]
    assert reader.granules(store, wanted) == [granule(number) for number in wanted]
    used = store.meter.snapshot() - before
    assert (used.requests, used.bytes_read) == (2, (3 + 11) * 32)


def test_runs_without_granules_or_hashes_are_not_read() -> None:
    store = fresh_store()
    empty, full = CuckooReader(built(store, [])), CuckooReader(built(store, [[1]]))
    before = store.meter.snapshot()
    assert pairs(empty.probe(store, hashes_of([1, 2]))) == pairs(full.probe(store, hashes_of([]))) == []
    assert full.granules(store, []) == []
    assert (store.meter.snapshot() - before).requests == 0
    assert empty.expected_of_probe(2) == full.expected_of_probe(0) == Cost()


def test_the_same_granules_give_the_same_bytes() -> None:
    store = fresh_store()
    one, other = (store.get(path_of(built(store, [range(50), range(9)]))) for _ in range(2))
    assert one == other


def test_an_index_without_buckets_is_refused() -> None:
    with pytest.raises(InvalidError, match="buckets=0"):
        CuckooBuilder(definition(0))


@pytest.mark.parametrize("bits", BITS)
def test_bytes_are_what_the_layout_says(bits: int) -> None:
    store = fresh_store()
    ref = built(store, [range(300)] * 4, buckets=114, bits=bits)
    assert ref.point is not None
    assert ref.point.row_bytes == -(-4 * 3 * bits // 8) + 4
    assert len(store.get(path_of(ref))) == ref.bytes == 114 * ref.point.row_bytes + 4 * 34 + 8 + ref.header_bytes
