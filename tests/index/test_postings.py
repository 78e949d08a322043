"""Postings runs against a dictionary of sets: nothing missed, nothing invented, one by one or all at once."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.filters.compiling import BUDGET, PRICE_NS
from needlefish.filters.postings import slot_of
from needlefish.format.checksum import checksum
from needlefish.format.granule_table import GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.format.run import path_of
from needlefish.index.point import PointBuilder, PointReader
from needlefish.index.postings import PostingsBuilder, PostingsReader, slots_for
from needlefish.index.postings.lately import Lately
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store

_numbers = count()
per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
# Length and checksum of a file.
GOLDEN = (51_317, "0ba56eff758bead5")
HASH = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])


@pytest.fixture(params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    before = BUDGET.available, BUDGET.spent_ns
    BUDGET.available, BUDGET.spent_ns = request.param == "compiled", PRICE_NS
    yield request.param
    BUDGET.available, BUDGET.spent_ns = before


def fresh() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://postings-{next(_numbers)}"))


def granule(number: int) -> GranuleRef:
    return GranuleRef(file_key(f"p{number // 4}", "file"), number % 4)


def built(store: RetriedStore, hashes: Sequence[Sequence[int]], index: PointIndexDefinition, total_keys: int = 0) -> RunRef:
    builder: PointBuilder = PostingsBuilder(index, total_keys)
    for number, part in enumerate(hashes):
        builder.add(granule(number), np.array(part, np.uint64))
    assert builder.keys == sum(map(len, hashes))
    return builder.finish(store, SYSTEM)


def hits_of(reader: PointReader, store: RetriedStore, hashed: int) -> list[int]:
    found = reader.probe(store, np.array([hashed], np.uint64))
    assert not found.places.any()
    return found.ordinals.tolist()


def pages_in(ref: RunRef) -> int:
    assert ref.point is not None
    return ref.point.end


@given(
    hashes=st.lists(st.lists(HASH, max_size=30), max_size=12),
    absent=st.lists(HASH, max_size=10),
    expected_keys=st.integers(1, 400),
    false_reads=st.floats(0.05, 3),
)
@per_engine
def test_probes_are_those_of_a_dictionary_of_slots(
    engine: str, hashes: list[list[int]], absent: list[int], expected_keys: int, false_reads: float
) -> None:
    store = fresh()
    index = PointIndexDefinition(name="a", fields=(1,), expected_keys=expected_keys, false_reads=false_reads)
    ref = built(store, hashes, index)
    slots = slots_for(index, sum(map(len, hashes)))
    model: dict[int, set[int]] = {}
    for ordinal, part in enumerate(hashes):
        for hashed in part:
            model.setdefault(slot_of(hashed, slots), set()).add(ordinal)
    asked = [hashed for part in hashes for hashed in part] + absent
    reader: PointReader = PostingsReader(ref)
    wanted = [sorted(model.get(slot_of(hashed, slots), ())) for hashed in asked]
    assert [hits_of(reader, store, hashed) for hashed in asked] == wanted
    together = reader.probe(store, np.array(asked, np.uint64))
    assert list(zip(together.places.tolist(), together.ordinals.tolist(), strict=True)) == [
        (place, ordinal) for place, ordinals in enumerate(wanted) for ordinal in ordinals
    ]
    assert ref.records == sum(map(len, model.values()))


def random_hashes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, count, np.uint64)


def test_many_pages_singles_and_batches_agree(engine: str) -> None:
    store = fresh()
    hashes = random_hashes(60_000, seed=1)
    hashes[:2] = 0, 2**64 - 1
    index = PointIndexDefinition(name="a", fields=(1,), expected_keys=60_000, false_reads=0.5)
    ref = built(store, np.split(hashes, 30), index, 60_000)
    assert pages_in(ref) > 10
    asked = np.concatenate([hashes[::300], random_hashes(200, seed=2), hashes[:2], hashes[:2]])
    reader = PostingsReader(ref)
    together = reader.probe(store, asked)
    for place, hashed in enumerate(asked.tolist()):
        assert together.ordinals[together.places == place].tolist() == hits_of(reader, store, hashed)
    for place in range(0, 60_000, 300):
        assert place // 2000 in together.ordinals[together.places == place // 300]


def test_both_engines_write_the_same_bytes() -> None:
    store, hashes = fresh(), random_hashes(50_000, seed=3)
    hashes[::50] = 5
    parts = np.split(hashes, 500)
    written = []
    before = BUDGET.available, BUDGET.spent_ns
    for BUDGET.available in (False, True):
        BUDGET.spent_ns = PRICE_NS
        ref = built(store, parts, PointIndexDefinition(name="a", fields=(1,), expected_keys=50_000), 50_000)
        written.append(store.get(f"_needlefish/index/a/{ref.id}.postings"))
    BUDGET.available, BUDGET.spent_ns = before
    assert written[0] == written[1]


def test_granules_are_resolved() -> None:
    for keys in (10, 50_000):
        store = fresh()
        parts = np.array_split(random_hashes(keys, seed=4), 9)
        reader = PostingsReader(built(store, parts, PointIndexDefinition(name="a", fields=(1,), expected_keys=keys)))
        assert reader.granules(store, [8, 0, 3, 3]) == [granule(8), granule(0), granule(3), granule(3)]
        assert reader.granules(store, []) == []


@pytest.mark.parametrize("hashes", [[], [[]], [[], [], []]])
def test_a_run_without_keys(engine: str, hashes: list[list[int]]) -> None:
    store = fresh()
    ref = built(store, hashes, PointIndexDefinition(name="a", fields=(1,)))
    reader = PostingsReader(ref)
    assert ref.records == 0
    assert len(reader.probe(store, random_hashes(100, seed=5))) == 0
    assert hits_of(reader, store, 7) == []
    assert len(reader.probe(store, np.zeros(0, np.uint64))) == 0


@given(hashes=st.lists(HASH, min_size=1, max_size=5))
@per_engine
def test_one_granule_and_one_slot(engine: str, hashes: list[int]) -> None:
    store = fresh()
    ref = built(store, [hashes], PointIndexDefinition(name="a", fields=(1,), expected_keys=1, false_reads=1.0), 0)
    assert all(hits_of(PostingsReader(ref), store, hashed) == [0] for hashed in hashes)


def test_a_run_of_more_keys_than_the_table_was_said_to_have_gets_slots_for_them() -> None:
    index = PointIndexDefinition(name="a", fields=(1,), expected_keys=100)
    ref = built(fresh(), [list(range(1000))], index, 0)
    assert ref.point is not None
    assert ref.point.slots == slots_for(index, 1000) == 16_000


def test_the_bytes_of_a_run_do_not_change(engine: str) -> None:
    """Runs are read for ever: a change of these bytes is a new format."""
    store = fresh()
    parts = [*np.split(random_hashes(20_000, seed=6), 400), np.zeros(0, np.uint64)]
    hashes = [np.append(part, np.array([7, 2**63][: 1 + number % 2], np.uint64)) for number, part in enumerate(parts)]
    ref = built(store, hashes, PointIndexDefinition(name="a", fields=(1,), expected_keys=20_000))
    data = store.get(path_of(ref))
    assert (len(data), checksum(data)) == GOLDEN


def test_threads_share_a_reader_whose_memory_is_bounded() -> None:
    store, hashes = fresh(), random_hashes(400_000, seed=7)
    ref = built(store, np.split(hashes, 40), PointIndexDefinition(name="a", fields=(1,), expected_keys=400_000))
    reader = PostingsReader(ref)

    def found(place: int) -> bool:
        return place // 10_000 in reader.probe(store, hashes[place : place + 1]).ordinals

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(found, range(0, 400_000, 400)))
    assert pages_in(ref) > 64
    assert len(reader._pages) == 64


def test_what_is_kept_is_what_was_used_last() -> None:
    kept: Lately[str] = Lately(2)
    kept.keep(1, "one")
    kept.keep(2, "two")
    assert kept.get(1) == "one"
    kept.keep(3, "three")
    assert (kept.get(1), kept.get(2), kept.get(3), len(kept)) == ("one", None, "three", 2)


def test_a_reader_refuses_another_kind() -> None:
    ref = RunRef(id="1", kind="files", bytes=1, header_bytes=1, header_checksum="", records=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidError, match="not a postings run"):
        PostingsReader(ref)
