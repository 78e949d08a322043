"""False answers against what is promised: of cuckoo filters for each width and many bucket counts, of postings as declared."""

import math
from collections.abc import Iterator

from benchmarks.point_index.runs import ABSENT, build_run, definition, hashes_of, memory_store, reader_for
from benchmarks.point_index.scale import Scale
from needlefish.index.cuckoo import BITS
from needlefish.index.point import Hashes, PointReader
from needlefish.store import RetriedStore

# Neighbours of a round number stand for all: hash functions that share a factor with one of them would show.
_BUCKETS = (1_024, 3_800, 3_999, 4_000, 4_001, 8_192)
_FALSE_READS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_PARTITIONS, _VALUES = 100, 10_000
_POSTINGS_PARTITIONS, _POSTINGS_VALUES = 1_000, 1_000
# Asked together: their hits fit into memory even at 8 bits.
_CALL = 100_000
# Narrow fingerprints show their rate sooner.
_SHARE_OF_PROBES = {8: 0.05, 12: 0.25}


def measure(scale: Scale) -> dict[str, list[dict[str, float]]]:
    cuckoo = [_cuckoo(bits, buckets, scale.rate_probes) for bits in BITS for buckets in _BUCKETS]
    return {"cuckoo": cuckoo, "postings": [_postings(false_reads, scale.rate_probes) for false_reads in _FALSE_READS]}


def _cuckoo(bits: int, buckets: int, probes: int) -> dict[str, float]:
    store = memory_store()
    keys = _PARTITIONS * _VALUES
    ref = build_run(store, definition("cuckoo", keys, _VALUES, buckets=buckets, bits=bits), _PARTITIONS, _VALUES)
    probes = round(probes * _SHARE_OF_PROBES.get(bits, 1.0))
    found = _false_hits(store, reader_for(ref), probes)
    assert ref.point is not None
    # Slots times occupancy is keys per bucket.
    rule = 2 * ref.point.keys / (buckets * _PARTITIONS) / 2**bits
    return {"bits": bits, "buckets": buckets, **_compared(found, probes * _PARTITIONS, rule)}


def _postings(false_reads: float, probes: int) -> dict[str, float]:
    store = memory_store()
    keys = _POSTINGS_PARTITIONS * _POSTINGS_VALUES
    index = definition("postings", keys, _POSTINGS_VALUES, false_reads=false_reads)
    ref = build_run(store, index, _POSTINGS_PARTITIONS, _POSTINGS_VALUES)
    return {"declared": false_reads, **_compared(_false_hits(store, reader_for(ref), probes), probes, false_reads)}


def _compared(found: int, trials: int, rule: float) -> dict[str, float]:
    """Deviations are those of a Poisson number: of false answers among very many independent questions."""
    expected = trials * rule
    return {
        "trials": trials,
        "found": found,
        "measured": found / trials,
        "error": math.sqrt(max(found, 1)) / trials,
        "promised": rule,
        "deviations": (found - expected) / math.sqrt(expected),
    }


def _false_hits(store: RetriedStore, reader: PointReader, probes: int) -> int:
    return sum(len(reader.probe(store, asked)) for asked in _absent(probes))


def _absent(probes: int) -> Iterator[Hashes]:
    for start in range(0, probes, _CALL):
        yield hashes_of(ABSENT + start, min(_CALL, probes - start))
