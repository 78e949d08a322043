"""Chunksets that a plan may take: streamed from the `files` and `skips` runs, one partition at a time."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from needlefish.errors import InvalidError
from needlefish.format.files_record import decode_files
from needlefish.format.metadata_key import file_key
from needlefish.index import newest
from needlefish.model.chunkset import ChunksetInfo, Curve, OrderedKey, PartitionPath
from needlefish.services.rewrite.plan import Group
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.skips import Hidden, with_hidden
from needlefish.table.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What somebody chose by hand; nothing of it means the whole table."""

    partitions: Mapping[str, object] | None = None
    where: str | None = None
    # Keys of `files` records; those that are gone are left out.
    files: Collection[str] | None = None
    # The same, of files that are left alone: other plans are going to read them.
    without: Collection[str] = ()

    def __post_init__(self) -> None:
        if self.files is not None and (self.partitions is not None or self.where is not None):
            raise InvalidError("files is given together with partitions or where; choose the files one way")
        if isinstance(self.files, str):
            raise InvalidError(f"files is {self.files!r}; give a list of keys of files")

    @property
    def is_by_hand(self) -> bool:
        return self.partitions is not None or self.where is not None or self.files is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """What planning needs to know of one chunkset, without its granules."""

    key: str
    rows: int
    bytes: int
    hidden: int
    first_key: OrderedKey
    last_key: OrderedKey
    is_sorted: bool
    order: tuple[int, ...]
    curve: Curve

    @property
    def visible(self) -> int:
        return self.rows - self.hidden

    @property
    def visible_bytes(self) -> int:
        """About what the visible rows take."""
        return self.bytes * self.visible // self.rows


def picks_by_partition(snapshot: Snapshot, selection: Selection) -> Iterator[tuple[PartitionPath, list[Pick]]]:
    """Memory holds the picks of one partition, whose files are neighbours in the runs."""
    listed = with_hidden(snapshot, _infos(snapshot, selection))
    for partition, together in groupby(listed, lambda found: found[0].partition):
        picks = (_pick(info, hidden) for info, hidden in together)
        yield partition, [pick for pick in picks if pick.key not in selection.without]


def _infos(snapshot: Snapshot, selection: Selection) -> Iterator[ChunksetInfo]:
    if selection.files is None:
        return plan_scan(snapshot, ScanRequest(where=selection.where, partitions=selection.partitions)).chunksets()
    records = newest.get(snapshot.store, snapshot.runs("files"), selection.files)
    return (info for batch in records for info in decode_files(batch))


def _pick(info: ChunksetInfo, hidden: Hidden | None) -> Pick:
    return Pick(
        key=file_key(info.partition, info.file_name),
        rows=info.rows,
        bytes=info.bytes,
        hidden=0 if hidden is None else hidden.count(0, info.rows),
        first_key=info.first_key,
        last_key=info.last_key,
        is_sorted=info.is_sorted,
        order=info.order,
        curve=info.curve,
    )


def in_key_order(picks: Iterable[Pick]) -> list[Pick]:
    """Neighbours by row key: rewritten together they give chunksets that share few keys."""
    return sorted(picks, key=lambda pick: (pick.first_key, pick.last_key, pick.key))


def group_of(partition: PartitionPath, picks: Collection[Pick]) -> Group:
    return Group(
        partition=partition,
        files=tuple(pick.key for pick in picks),
        rows=sum(pick.rows for pick in picks),
        bytes=sum(pick.bytes for pick in picks),
        hidden=sum(pick.hidden for pick in picks),
    )


class Budget:
    """What one plan may read. The first group always fits; what does not is counted."""

    def __init__(self, most_bytes: int, most_files: int = 50_000) -> None:
        if isinstance(most_bytes, bool) or not isinstance(most_bytes, int) or most_bytes < 1:
            raise InvalidError(f"most_bytes is {most_bytes!r}; give the bytes that one plan may read, such as {8 * 1024**3}")
        self.bytes_left = most_bytes
        self.files_left = most_files
        self.left_files = self.left_bytes = 0
        self._is_empty = True

    def takes(self, files: int, size: int) -> bool:
        """Whether there is room; once there was none, there is none for anything."""
        fits = self._is_empty or (not self.left_files and size <= self.bytes_left and files <= self.files_left)
        if fits:
            self._is_empty = False
            self.bytes_left -= size
            self.files_left -= files
        else:
            self.left_files += files
            self.left_bytes += size
        return fits
