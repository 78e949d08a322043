"""Index runs of both kinds over synthetic values: partition p has the integers from p x values up to (p + 1) x values."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import numpy as np
import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.filters.compiling import BUDGET, PRICE_NS
from needlefish.filters.hash import hash_array
from needlefish.format.granule_table import WHOLE_FILE, GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.format.run import path_of
from needlefish.index.cuckoo import CuckooBuilder, CuckooReader, buckets_for, merge_cuckoo
from needlefish.index.point import Hashes, PointBuilder, PointReader
from needlefish.index.postings import PostingsBuilder, PostingsReader, merge_postings
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition, PointKind
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore, Store, open_store

KINDS: tuple[PointKind, PointKind] = ("cuckoo", "postings")
FALSE_READS = 0.1
# Values that no partition has begin here.
ABSENT = 1 << 40
# Hashed at once, in whole partitions.
_BLOCK_KEYS = 1 << 22
# A cuckoo builder keeps sixteen small arrays for each filter: beyond these, runs are merged instead.
_BUILDER_GRANULES = 100_000
_KEY = file_key("p", "file")
_numbers = count()


def allow_kernels() -> None:
    """As in a process that has been up for a while: from now on all work that can be compiled is."""
    BUDGET.spent_ns = PRICE_NS


def hashes_of(first: int, values: int) -> Hashes:
    """The hashes of the integers from `first` on."""
    return hash_array(pa.array(np.arange(first, first + values, dtype=np.int64))).present()


def partitions_of(partitions: int, values: int, first: int = 0) -> Iterator[Hashes]:
    """The hashes of each partition in turn."""
    each = max(1, _BLOCK_KEYS // values)
    for start in range(first, first + partitions, each):
        found = min(each, first + partitions - start)
        yield from hashes_of(start * values, found * values).reshape(found, values)


def definition(
    kind: PointKind, keys: int, values: int, *, buckets: int = 0, bits: int = 16, false_reads: float = 0.0
) -> PointIndexDefinition:
    return PointIndexDefinition(
        name="id",
        fields=(1,),
        kind=kind,
        granularity="file",
        false_reads=false_reads or FALSE_READS,
        expected_keys=keys,
        bits=bits,
        buckets=buckets or buckets_for(values),
    )


def builder_for(index: PointIndexDefinition) -> PointBuilder:
    return CuckooBuilder(index) if index.kind == "cuckoo" else PostingsBuilder(index, index.expected_keys)


def reader_for(ref: RunRef) -> PointReader:
    assert ref.point is not None
    return CuckooReader(ref) if ref.point.kind == "cuckoo" else PostingsReader(ref)


def granule(number: int) -> GranuleRef:
    return GranuleRef(_KEY, number % WHOLE_FILE)


def build_run(store: Store, index: PointIndexDefinition, partitions: int, values: int, first: int = 0) -> RunRef:
    builder = builder_for(index)
    for number, hashes in enumerate(partitions_of(partitions, values, first), first):
        builder.add(granule(number), hashes)
    return builder.finish(store, SYSTEM)


def large_run(store: Store, index: PointIndexDefinition, partitions: int, values: int) -> RunRef:
    """`build_run`, of many cuckoo filters in several steps."""
    if index.kind == "postings" or partitions <= _BUILDER_GRANULES:
        return build_run(store, index, partitions, values)
    parts = [build_run(store, index, _BUILDER_GRANULES, values, first) for first in range(0, partitions, _BUILDER_GRANULES)]
    merged = merge_cuckoo(store, parts, lambda keys: [True] * len(keys), SYSTEM)
    store.delete([path_of(part) for part in parts])
    return merged


def merge_runs(store: Store, runs: list[RunRef]) -> RunRef:
    assert runs[0].point is not None
    merge = merge_cuckoo if runs[0].point.kind == "cuckoo" else merge_postings
    return merge(store, runs, lambda keys: [True] * len(keys), SYSTEM)


def questions(partitions: int, values: int, probes: int, seed: int = 1) -> Hashes:
    """As many hashes of values that are there as of values that are nowhere, in no order."""
    chance = np.random.default_rng(seed)
    there = chance.integers(0, partitions * values, probes // 2)
    asked = np.concatenate([there, chance.integers(ABSENT, 2 * ABSENT, probes - probes // 2)])
    return hash_array(pa.array(chance.permutation(asked))).present()


@contextmanager
def local_store() -> Iterator[RetriedStore]:
    """In a folder that is gone afterwards; NEEDLEFISH_BENCH names the disk it is on, if not the usual one."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("NEEDLEFISH_BENCH")) as folder:
        yield open_store(StoreConfig(uri=folder))


def memory_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://bench-{next(_numbers)}"))
