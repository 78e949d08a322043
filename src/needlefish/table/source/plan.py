"""Which chunksets a read has to open: by looking values up where the predicate pins them, else by ruling files out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from needlefish.model.chunkset import ChunksetInfo, PartitionPath
from needlefish.store import Meter
from needlefish.table.find import Candidate, FindReceipt, Search, Wanted, candidates
from needlefish.table.partition.prune import pinned_paths
from needlefish.table.predicate import parse_where
from needlefish.table.predicate.tree import TRUE
from needlefish.table.scan import ScanPlan, ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.source.explain import Explanation
from needlefish.table.source.request import SourceRead
from needlefish.table.source.statistics import pass_statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One chunkset for a task to read.

    `values` are the numbers of the question's values that it may hold, as little-endian u32, and `granules` the only ones
    that may hold them; absent means all.
    """

    info: ChunksetInfo
    values: bytes | None = None
    granules: tuple[int, ...] | None = None

    @property
    def bytes(self) -> int:
        """What its granules take in the file."""
        numbers = range(len(self.info.granules)) if self.granules is None else self.granules
        return sum(self.info.granules[number].bytes for number in numbers)

    @property
    def granule_count(self) -> int:
        return len(self.info.granules if self.granules is None else self.granules)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePlan:
    """What is left to read, and why."""

    pieces: tuple[Piece, ...]
    explanation: Explanation


def plan_source(snapshot: Snapshot, read: SourceRead, meter: Meter) -> SourcePlan:
    """Reads indexes and lists of files, no data; `meter` is the one of the snapshot's store."""
    scan = _scan(snapshot, read)
    return _by_rules(scan) if read.wanted is None else _by_values(scan, read.wanted, meter)


def explain_source(snapshot: Snapshot, where: str | None, partitions: Mapping[str, object] | None, meter: Meter) -> Explanation:
    """Why a read with this condition opens the files that it opens."""
    schema = snapshot.state.definition.schema
    predicate = TRUE if where is None else parse_where(where, schema)
    read = SourceRead(state=snapshot.state, columns=schema.fields, output=schema.to_arrow(), predicate=predicate, partitions=partitions)
    return plan_source(snapshot, read, meter).explanation


def _scan(snapshot: Snapshot, read: SourceRead) -> ScanPlan:
    """The plan of a scan for the same rows."""
    names = [field.name for field in read.columns]
    plan = plan_scan(snapshot, ScanRequest(columns=names, partitions=read.partitions))
    by_value = pinned_paths(read.predicate, snapshot.partition_columns)
    return replace(plan, predicate=read.predicate, pinned=_both(plan.pinned, by_value))


def _both(chosen: Iterable[PartitionPath] | None, pinned: Iterable[PartitionPath] | None) -> tuple[PartitionPath, ...] | None:
    if chosen is None or pinned is None:
        known = pinned if chosen is None else chosen
        return None if known is None else tuple(known)
    return tuple(set(chosen) & set(pinned))


def _by_rules(scan: ScanPlan) -> SourcePlan:
    unreadable: list[str] = []
    keyed = list(scan.chunksets())
    left = list(pass_statistics(scan.snapshot, scan.predicate, keyed, _partitions(scan), unreadable.append))
    receipt = scan.receipt
    return _planned(
        [Piece(info=info) for info in left],
        Explanation(
            version=receipt.version,
            chosen_by="partitions looked up by name" if scan.pinned is not None else "the list of files",
            files_total=receipt.files_total,
            files_pruned_by_partition=receipt.files_total - receipt.files_listed + receipt.files_pruned_by_partition,
            files_pruned_by_key=receipt.files_pruned_by_key,
            files_pruned_by_statistics=len(keyed) - len(left),
            unreadable=tuple(dict.fromkeys(unreadable)),
        ),
    )


def _partitions(scan: ScanPlan) -> tuple[PartitionPath, ...] | None:
    return scan.pinned if scan.snapshot.partition_columns else None


def _by_values(scan: ScanPlan, wanted: Wanted, meter: Meter) -> SourcePlan:
    """The very candidates that a find has, without those of partitions that nobody asked for."""
    receipt = FindReceipt(version=scan.receipt.version, values=len(wanted), index="metadata: files, ranges, filters", partitions=None)
    search = Search(snapshot=scan.snapshot, wanted=wanted, partitions=_partitions(scan), receipt=receipt, meter=meter)
    found = list(candidates(search)) if len(wanted) else []
    chosen = [candidate for candidate in found if scan.selection.texts_of(candidate.info.partition) is not None]
    ranges, filters = receipt.level("ranges"), receipt.level("filters")
    by_statistics, by_filters = ranges.files_in - ranges.files_out, filters.files_in - filters.files_out
    others = scan.receipt.files_total - len(chosen) - by_statistics - by_filters
    by_index = others if receipt.level("index").files_in else 0
    return _planned(
        [_piece(candidate, wanted) for candidate in chosen],
        Explanation(
            version=receipt.version,
            chosen_by=receipt.index,
            files_total=scan.receipt.files_total,
            files_pruned_by_partition=others - by_index,
            files_pruned_by_index=by_index,
            files_pruned_by_statistics=0 if wanted.is_key else by_statistics,
            files_pruned_by_key=by_statistics if wanted.is_key else 0,
            files_pruned_by_filters=by_filters,
            unreadable=tuple(receipt.unreadable),
        ),
    )


def _piece(candidate: Candidate, wanted: Wanted) -> Piece:
    part = candidate.wanted
    values = None if part is wanted else part.places.astype(np.dtype("<u4")).tobytes()
    return Piece(info=candidate.info, values=values, granules=candidate.granules)


def _planned(pieces: list[Piece], explanation: Explanation) -> SourcePlan:
    counted = replace(
        explanation,
        files_left=len(pieces),
        granules_left=sum(piece.granule_count for piece in pieces),
        bytes_left=sum(piece.bytes for piece in pieces),
    )
    return SourcePlan(pieces=tuple(pieces), explanation=counted)
