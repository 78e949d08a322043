"""The kinds of point indexes, side by side: the only place that tells them apart."""

from collections.abc import Sequence

from needlefish.index.cuckoo import CuckooBuilder, CuckooReader, merge_cuckoo, verify_cuckoo
from needlefish.index.point import PointBuilder, PointMerge, PointReader
from needlefish.index.postings import PostingsBuilder, PostingsReader, merge_postings, merged_layout
from needlefish.index.postings.verify import verify_postings
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition, PointRun
from needlefish.store import Store


def point_builder(index: PointIndexDefinition, keys_before: int, total_keys: int = 0) -> PointBuilder:
    """For a new run of an index that has so many keys already, or is known to get so many in all."""
    return CuckooBuilder(index) if index.kind == "cuckoo" else PostingsBuilder(index, total_keys, keys_before)


def point_reader(ref: RunRef) -> PointReader:
    assert ref.point is not None, f"{ref.kind} is no kind of index run"
    return CuckooReader(ref) if ref.point.kind == "cuckoo" else PostingsReader(ref)


def point_merge(ref: RunRef) -> PointMerge:
    """What merges runs like this one."""
    assert ref.point is not None, f"{ref.kind} is no kind of index run"
    return merge_cuckoo if ref.point.kind == "cuckoo" else merge_postings


def verify_point_run(store: Store, ref: RunRef) -> None:
    """Reads every byte; raises CorruptError at the first that is not as the log says."""
    assert ref.point is not None, f"{ref.kind} is no kind of index run"
    (verify_cuckoo if ref.point.kind == "cuckoo" else verify_postings)(store, ref)


def merged_end(runs: Sequence[RunRef]) -> int:
    """How many pages or buckets the run has that these become: what parts of it count."""
    first = runs[0].point
    assert first is not None, f"{runs[0].kind} is no kind of index run"
    if first.kind == "cuckoo":
        return first.buckets
    return merged_layout(runs).end


def whole_runs(refs: Sequence[RunRef]) -> list[list[RunRef]]:
    """Parts of one run together: they follow each other, each beginning where the one before it ended."""
    found: list[list[RunRef]] = []
    for ref in refs:
        assert ref.point is not None, f"{ref.kind} is no kind of index run"
        before = found[-1][-1].point if found else None
        if before is not None and ref.point.first and ref.point.first == before.end and ref.point.granules == before.granules:
            found[-1].append(ref)
        else:
            found.append([ref])
    return found


def expected_false_reads(refs: Sequence[RunRef]) -> float:
    """Granules that a find of one value reads in vain, over all of these runs."""
    return sum(_false_reads(ref.point) for ref in refs if ref.point is not None)


def _false_reads(run: PointRun) -> float:
    if run.kind == "cuckoo":
        # Both buckets of a find hold this many filled slots of all filters together; a part has its share of buckets.
        return 2 * run.keys / run.buckets / 2**run.bits if run.buckets else 0.0
    return run.keys / run.slots if run.slots else 0.0
