"""A find from end to end: the levels, then the candidates' rows, several files at a time."""

from collections.abc import Iterator, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.index.asking import read_each
from needlefish.index.cost import Cost
from needlefish.model.chunkset import PartitionPath
from needlefish.model.schema import Field
from needlefish.store import Meter
from needlefish.table.chunkset_reader import footer_key
from needlefish.table.find.candidates import candidates
from needlefish.table.find.match import Match, match_rows
from needlefish.table.find.receipt import FindReceipt
from needlefish.table.find.search import Candidate, Search
from needlefish.table.find.wanted import Wanted
from needlefish.table.partition import partition_paths
from needlefish.table.partition.prune import MOST_PINNED
from needlefish.table.skips import Hidden, expected_of_skips, is_hidden, with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.timeline.replay import told_if_cleaned

# Candidate files read at once.
_AT_ONCE = 16


def find_rows(snapshot: Snapshot, wanted: Wanted, columns: Sequence[Field], meter: Meter) -> tuple[pa.Table, FindReceipt]:
    """Every row with a wanted value, and what finding them cost; `meter` is the one of the snapshot's store."""
    partitions = _partitions(snapshot, wanted)
    receipt = FindReceipt(
        version=snapshot.state.version,
        values=len(wanted),
        index="metadata: files, ranges, filters",
        partitions=None if partitions is None else len(partitions),
    )
    search = Search(snapshot=snapshot, wanted=wanted, partitions=partitions, receipt=receipt, meter=meter)
    with told_if_cleaned(snapshot.store, snapshot.state):
        left = list(candidates(search))
        found = _read(search, left, columns)
    rows = _shown(found, columns)
    receipt.rows_returned = rows.num_rows
    return rows, receipt


def _shown(found: Sequence[Match], columns: Sequence[Field]) -> pa.Table:
    if not found:
        return pa.schema([field.to_arrow() for field in columns]).empty_table()
    parts = [match.rows.remove_column(0) for match in found]
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts)


def _partitions(snapshot: Snapshot, wanted: Wanted) -> list[PartitionPath] | None:
    """The only partitions that can hold the values, if every partition column is computed from a wanted one."""
    columns = snapshot.partition_columns
    known = {field.id for field in wanted.fields}
    if not columns or not all(column.source is None or column.source.id in known for column in columns):
        return None
    if not len(wanted):
        return []
    rows = pa.RecordBatch.from_arrays(list(wanted.arrays), names=[field.name for field in wanted.fields])
    paths = pc.unique(partition_paths(rows, columns)).to_pylist()
    return [PartitionPath(path) for path in paths] if len(paths) <= MOST_PINNED else None


def _read(search: Search, left: list[Candidate], columns: Sequence[Field]) -> list[Match]:
    level = search.receipt.level("data")
    level.files_in = len(left)
    # What a granule costs, and a footer unless it is at hand; the receipt shows how far that was off.
    for info in (candidate.info for candidate in left):
        footer = Cost() if footer_key(info) in search.snapshot.footers else Cost(requests=1, bytes=info.footer_bytes)
        level.expect(footer + Cost(requests=1, bytes=max(granule.bytes for granule in info.granules)))
    level.expect(expected_of_skips(search.snapshot, [candidate.info for candidate in left]))
    before = search.meter.snapshot()
    found: list[Match] = []
    visible = _visible(search, left)
    while some := list(islice(visible, _AT_ONCE)):
        found += read_each(search.snapshot.store, lambda pair: match_rows(search.snapshot, pair[0], columns, pair[1]), some)
    level.usage = search.meter.snapshot() - before
    level.files_out = sum(match.rows.num_rows > 0 for match in found)
    _sum_up(search.receipt, found)
    return found


def _visible(search: Search, left: list[Candidate]) -> Iterator[tuple[Candidate, Hidden | None]]:
    """The candidates with their hidden rows, without those that have no other."""
    for candidate, (info, hidden) in zip(left, with_hidden(search.snapshot, [found.info for found in left]), strict=True):
        if is_hidden(info, hidden):
            search.receipt.files_skipped += 1
        else:
            yield candidate, hidden


def _sum_up(receipt: FindReceipt, found: Sequence[Match]) -> None:
    receipt.false_files = sum(match.rows.num_rows == 0 for match in found)
    receipt.granules_read = sum(match.granules_read for match in found)
    receipt.granules_pruned = sum(match.granules_pruned for match in found)
    receipt.false_granules = sum(match.false_granules for match in found)
    receipt.rows_read = sum(match.rows_read for match in found)
    receipt.rows_skipped = sum(match.rows_skipped for match in found)
