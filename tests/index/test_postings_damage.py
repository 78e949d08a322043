"""Damaged postings: whatever a probe or a check reads and finds changed, cut or gone is an error, never a miss."""

from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
from pyroaring import BitMap

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError
from needlefish.format.granule_table import GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.format.run import path_of
from needlefish.index.postings import PostingsBuilder, PostingsReader, merge_postings, verify_postings
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store

_numbers = count()


def built(granules: int, keys: int) -> tuple[RetriedStore, RunRef, list[np.ndarray]]:
    """Every granule has the hash 99 as well, which is hot where they are many."""
    store = open_store(StoreConfig(uri=f"memory://postings-damage-{next(_numbers)}"))
    rng = np.random.default_rng(1)
    hashes = [np.append(rng.integers(0, 2**64, keys, np.uint64), np.uint64(99)) for _ in range(granules)]
    builder = PostingsBuilder(PointIndexDefinition(name="a", fields=(1,), expected_keys=granules * (keys + 1)), 0)
    for number, part in enumerate(hashes):
        builder.add(GranuleRef(file_key("p", "file"), number), part)
    return store, builder.finish(store, SYSTEM), hashes


def flipped(store: RetriedStore, ref: RunRef, step: int = 1) -> Iterator[int]:
    """Flips one byte after the other, and puts it back."""
    data = store.get(path_of(ref))
    for at in range(0, len(data), step):
        store.put(path_of(ref), data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
        yield at
    store.put(path_of(ref), data)


@pytest.mark.parametrize(("granules", "keys"), [(5, 20), (300, 1), (0, 0)])
def test_a_small_file_shows_every_flipped_byte(granules: int, keys: int) -> None:
    store, ref, _ = built(granules, keys)
    assert ref.bytes <= 16 * 1024
    for _ in flipped(store, ref, step=1 if granules < 10 else 7):
        for asked in (1, 3):
            with pytest.raises(CorruptError):
                PostingsReader(ref).probe(store, np.arange(asked, dtype=np.uint64))
        with pytest.raises(CorruptError):
            verify_postings(store, ref)
    verify_postings(store, ref)


def test_a_large_file_never_misses() -> None:
    """Each probe is right or an error; every place that one reads shows in one of them."""
    store, ref, hashes = built(300, 40)
    assert ref.bytes > 16 * 1024
    errors = 0
    for at in flipped(store, ref, step=101):
        errors += _right_or_corrupt(store, ref, hashes, at)
        with pytest.raises(CorruptError):
            verify_postings(store, ref)
    assert errors > 50


def _right_or_corrupt(store: RetriedStore, ref: RunRef, hashes: list[np.ndarray], at: int) -> int:
    errors = 0
    for number in (at % 300, (at * 7) % 300):
        try:
            reader = PostingsReader(ref)
            assert number in reader.probe(store, hashes[number][at % 41 :][:1]).ordinals
            found = reader.probe(store, hashes[number])
            assert len(set(found.places[found.ordinals == number].tolist())) == 41
            assert reader.granules(store, [number])[0].granule == number
        except CorruptError:
            errors += 1
    return errors


@pytest.mark.parametrize(("granules", "keys"), [(5, 20), (300, 40)])
def test_cut_missing_and_longer_files(granules: int, keys: int) -> None:
    store, ref, hashes = built(granules, keys)
    data = store.get(path_of(ref))
    for size in (0, 1, len(data) // 4, len(data) // 2):
        store.put(path_of(ref), data[:size])
        assert_all_corrupt(store, ref, hashes)
    store.put(path_of(ref), data[:-1])
    with pytest.raises(CorruptError):
        verify_postings(store, ref)
    store.put(path_of(ref), data + b"x")
    with pytest.raises(CorruptError, match="longer"):
        verify_postings(store, ref)
    store.delete([path_of(ref)])
    assert_all_corrupt(store, ref, hashes)


def assert_all_corrupt(store: RetriedStore, ref: RunRef, hashes: list[np.ndarray]) -> None:
    with pytest.raises(CorruptError):
        PostingsReader(ref).probe(store, hashes[0][:1])
    with pytest.raises(CorruptError):
        PostingsReader(ref).probe(store, np.concatenate(hashes))
    with pytest.raises(CorruptError):
        PostingsReader(ref).granules(store, [0])
    with pytest.raises(CorruptError):
        verify_postings(store, ref)
    with pytest.raises(CorruptError):
        merge_postings(store, [ref], lambda keys: [True] * len(keys), SYSTEM)


def test_what_lies_between_hot_lists_and_pages_is_zero() -> None:
    """A list of 301 granules in 618 bytes: pages begin at 624."""
    store = open_store(StoreConfig(uri=f"memory://postings-damage-{next(_numbers)}"))
    builder = PostingsBuilder(PointIndexDefinition(name="a", fields=(1,), expected_keys=603), 0)
    for number in range(603):
        builder.add(GranuleRef(file_key("p", "file"), number), np.array([99 if number % 2 else (number + 1) << 54], np.uint64))
    ref = builder.finish(store, SYSTEM)
    data = store.get(path_of(ref))
    assert PostingsReader(ref)._file.page_refs(store, [0])[0].offset == 624
    assert list(BitMap.deserialize(data[:618])) == list(range(1, 603, 2))
    assert not any(data[618:624])
    verify_postings(store, ref)
    for at in range(617, 625):
        store.put(path_of(ref), data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(CorruptError):
            verify_postings(store, ref)


def test_a_merge_refuses_every_page_that_is_damaged() -> None:
    store, ref, _ = built(300, 40)
    for _ in flipped(store, ref, step=997):
        try:
            merged = merge_postings(store, [ref], lambda keys: [True] * len(keys), SYSTEM)
        except CorruptError:
            continue
        # The trailer and the padding are the only bytes that a merge does not need.
        assert merged.records == ref.records
