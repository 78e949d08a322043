"""Damaged cuckoo runs: a probe gives the right answer or raises, whatever byte is wrong."""

import base64
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError
from needlefish.format.granule_table import GranuleRef
from needlefish.format.run import path_of
from needlefish.index.cuckoo import CuckooBuilder, CuckooReader, verify_cuckoo
from needlefish.index.point import Hits
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, open_store
from needlefish.testing.damage import flip, truncate

_numbers = count()
HASHES = np.random.default_rng(1).integers(0, 2**64, 12, np.uint64)


def key_of(number: int) -> str:
    key = number.to_bytes(24, "big")
    return base64.b64encode(key[:8]).decode() + base64.b64encode(key[8:]).decode()


@pytest.fixture(params=[12, 16])
def run(request: pytest.FixtureRequest) -> tuple[RetriedStore, RunRef]:
    """Three granules: the first eight hashes, the last four, none."""
    store = open_store(StoreConfig(uri=f"memory://cuckoo-damage-{next(_numbers)}"))
    builder = CuckooBuilder(PointIndexDefinition(name="id", fields=(1,), kind="cuckoo", bits=request.param, buckets=4))
    for number, hashes in enumerate((HASHES[:8], HASHES[8:], HASHES[:0])):
        builder.add(GranuleRef(key_of(number), number), hashes)
    return store, builder.finish(store, SYSTEM)


def pairs(hits: Hits) -> list[tuple[int, int]]:
    return list(zip(hits.places.tolist(), hits.ordinals.tolist(), strict=True))


def probed(store: RetriedStore, ref: RunRef) -> list[list[tuple[int, int]] | None]:
    """The answers for each hash alone and for all together; None where the probe raised."""
    found: list[list[tuple[int, int]] | None] = []
    for wanted in (*(HASHES[place : place + 1] for place in range(len(HASHES))), HASHES):
        try:
            found.append(pairs(CuckooReader(ref).probe(store, wanted)))
        except CorruptError:
            found.append(None)
    return found


def test_every_flipped_byte_raises_or_does_not_matter(run: tuple[RetriedStore, RunRef]) -> None:
    store, ref = run
    assert ref.point is not None
    right = probed(store, ref)
    rows_end = 4 * ref.point.row_bytes
    table_start = rows_end + 3 * 32
    for at in range(ref.bytes):
        flip(store, path_of(ref), at, bit=at % 8)
        found = probed(store, ref)
        assert all(one is None or one == other for one, other in zip(found, right, strict=True)), at
        if at < rows_end or table_start <= at < table_start + 14:
            assert found[-1] is None, at
        else:
            assert found == right, at
        with pytest.raises(CorruptError):
            verify_cuckoo(store, ref)
        flip(store, path_of(ref), at, bit=at % 8)
    verify_cuckoo(store, ref)


def test_a_damaged_granule_table_raises(run: tuple[RetriedStore, RunRef]) -> None:
    store, ref = run
    assert ref.point is not None
    for at in range(4 * ref.point.row_bytes, 4 * ref.point.row_bytes + 96):
        flip(store, path_of(ref), at)
        with pytest.raises(CorruptError):
            CuckooReader(ref).granules(store, [0, 1, 2])
        flip(store, path_of(ref), at)


def test_a_file_cut_off_anywhere_raises_or_does_not_matter(run: tuple[RetriedStore, RunRef]) -> None:
    store, ref = run
    assert ref.point is not None
    whole, right = store.get(path_of(ref)), probed(store, ref)
    granules_end = 4 * ref.point.row_bytes + 96
    for size in range(ref.bytes):
        truncate(store, path_of(ref), size)
        found = probed(store, ref)
        assert all(one is None or one == other for one, other in zip(found, right, strict=True)), size
        with pytest.raises(CorruptError):
            verify_cuckoo(store, ref)
        if size < granules_end:
            with pytest.raises(CorruptError):
                CuckooReader(ref).granules(store, [0, 2])
        store.put(path_of(ref), whole)


def test_a_missing_file_raises(run: tuple[RetriedStore, RunRef]) -> None:
    store, ref = run
    store.delete([path_of(ref)])
    reader = CuckooReader(ref)
    for read in (lambda: reader.probe(store, HASHES[:1]), lambda: reader.probe(store, HASHES), lambda: reader.granules(store, [0])):
        with pytest.raises(CorruptError, match="missing"):
            read()


def test_a_log_that_says_other_things_is_seen(run: tuple[RetriedStore, RunRef]) -> None:
    store, ref = run
    assert ref.point is not None
    with pytest.raises(CorruptError, match="other things"):
        verify_cuckoo(store, replace(ref, records=9))
    with pytest.raises(CorruptError):
        verify_cuckoo(store, replace(ref, point=replace(ref.point, granules=2)))
