"""Choosing chunksets: partitions by name where the predicate pins them, else the whole (small) file list, filtered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.format.files_record import decode_files
from needlefish.format.metadata_key import hash64_part
from needlefish.index import newest
from needlefish.model.chunkset import ChunksetInfo, PartitionPath
from needlefish.model.schema import Field, Schema
from needlefish.table.partition.prune import PartitionEvidence, pinned_paths
from needlefish.table.partition.select import Selection, parse_partitions
from needlefish.table.predicate import Predicate, both, may_match, parse_where
from needlefish.table.predicate.tree import TRUE
from needlefish.table.scan.key_evidence import KeyEvidence
from needlefish.table.scan.key_range import KeyRange, parse_key_range
from needlefish.table.scan.receipt import Mode, ScanReceipt
from needlefish.table.skips import Hidden, is_hidden, with_hidden
from needlefish.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """A scan as the caller asks for it."""

    columns: Sequence[str] | None = None
    where: str | None = None
    partitions: Mapping[str, object] | None = None
    key_range: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """A checked request: what to read, and the receipt that reading it fills in."""

    snapshot: Snapshot
    columns: tuple[Field, ...]
    predicate: Predicate
    selection: Selection
    key_range: KeyRange
    pinned: tuple[PartitionPath, ...] | None
    receipt: ScanReceipt

    def chunksets(self) -> Iterator[ChunksetInfo]:
        """The chunksets that may hold matching rows, hidden or not; the file list is read as they are taken."""
        wanted = cache(self._wants_partition)
        for records in self._records():
            self.receipt.files_listed += records.num_rows
            kept = records.filter(pa.array([wanted(path) for path in records["partition"].to_pylist()], pa.bool_()))
            self.receipt.files_pruned_by_partition += records.num_rows - kept.num_rows
            for info in decode_files(kept):
                if self._may_hold(info):
                    yield info
                else:
                    self.receipt.files_pruned_by_key += 1

    def visible_chunksets(self) -> Iterator[tuple[ChunksetInfo, Hidden | None]]:
        """The same with their hidden rows, without those that have no other."""
        for info, hidden in with_hidden(self.snapshot, self.chunksets()):
            if is_hidden(info, hidden):
                self.receipt.files_pruned_by_skips += 1
            else:
                yield info, hidden

    def _records(self) -> Iterator[pa.RecordBatch]:
        store, files = self.snapshot.store, self.snapshot.runs("files")
        if self.pinned is None or not self.snapshot.partition_columns:
            return newest.scan(store, files)
        return newest.with_prefixes(store, files, (hash64_part(path) for path in self.pinned))

    def _wants_partition(self, path: str) -> bool:
        # Two paths may share a hash, so that a looked-up partition is checked as well.
        columns = self.snapshot.partition_columns
        texts = self.selection.texts_of(path)
        if texts is None:
            return False
        values = [column.parse(text) for column, text in zip(columns, texts, strict=True)]
        return may_match(self.predicate, PartitionEvidence(columns=columns, values=values))

    def _may_hold(self, info: ChunksetInfo) -> bool:
        leading = self.snapshot.state.definition.key_fields[0]
        return self.key_range.may_hold(info) and may_match(self.predicate, KeyEvidence(info=info, leading=leading))


def plan_scan(snapshot: Snapshot, request: ScanRequest) -> ScanPlan:
    """Checks every argument and chooses the mode; nothing is read yet."""
    definition = snapshot.state.definition
    columns = _columns(definition.schema.names if request.columns is None else request.columns, definition.schema)
    predicate = TRUE if request.where is None else parse_where(request.where, definition.schema)
    key_range = parse_key_range(request.key_range, definition.key_fields)
    selection = parse_partitions(request.partitions, snapshot.partition_columns)
    pinned = _pinned(snapshot, predicate, selection)
    return ScanPlan(
        snapshot=snapshot,
        columns=columns,
        predicate=both(predicate, key_range.predicate),
        selection=selection,
        key_range=key_range,
        pinned=pinned,
        receipt=ScanReceipt(
            version=snapshot.state.version,
            mode=_mode(pinned),
            partitions=None if pinned is None else len(pinned),
            files_total=snapshot.state.totals.files,
        ),
    )


def _columns(names: Sequence[str], schema: Schema) -> tuple[Field, ...]:
    if isinstance(names, str) or not names:
        raise InvalidError(f"columns is {names!r}; give a list of column names, such as {list(schema.names[:2])}")
    return tuple(schema.field(name, "columns") for name in names)


def _pinned(snapshot: Snapshot, predicate: Predicate, selection: Selection) -> tuple[PartitionPath, ...] | None:
    by_name = selection.paths()
    by_value = pinned_paths(predicate, snapshot.partition_columns)
    if by_name is None or by_value is None:
        found = by_value if by_name is None else by_name
        return None if found is None else tuple(found)
    return tuple(path for path in by_value if path in set(by_name))


def _mode(pinned: Sequence[PartitionPath] | None) -> Mode:
    if pinned is None:
        return "filtered scan"
    return "single partition" if len(pinned) <= 1 else "several partitions"
