"""Marks: rows of one chunkset that a change hides, as tasks hand them back."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from needlefish.format.skips_record import Skips, united
from needlefish.model.chunkset import PartitionPath

MARK_SCHEMA = pa.schema(
    [
        ("partition", pa.string()),
        ("file_name", pa.string()),
        ("rows", pa.binary()),
        ("deleted", pa.bool_()),
        ("late", pa.bool_()),
        ("by", pa.string()),
        ("by_rows", pa.binary()),
        ("requests", pa.int64()),
    ]
)
# The same for engines that want words.
MARK_TEXT = "partition string, file_name string, rows binary, deleted boolean, late boolean, by string, by_rows binary, requests long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Rows of an older chunkset that are replaced or, with `deleted`, deleted; with `late`, new rows that an older one outranks.

    Of these, `by` is the key of the chunkset that outranks, and `by_rows` says for each row in turn by which of its own: when
    somebody hides that, what was late is so no more.
    """

    skips: Skips
    deleted: bool = False
    late: bool = False
    by: str | None = None
    by_rows: tuple[int, ...] = ()

    def without(self, hidden: BitMap) -> "Mark":
        """Those that are late still, when rows of the chunkset that outranks are hidden."""
        kept = [(row, by) for row, by in zip(self.skips.rows, self.by_rows, strict=True) if by not in hidden]
        return replace(self, skips=replace(self.skips, rows=BitMap(row for row, _ in kept)), by_rows=tuple(by for _, by in kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Rows that a commit has hidden: older ones that were replaced or deleted, and new ones that came too late."""

    replaced: int
    deleted: int
    late: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """All of one comparison."""

    marks: tuple[Mark, ...] = ()
    requests: int = 0

    @property
    def skips(self) -> tuple[Skips, ...]:
        return tuple(united(mark.skips for mark in self.marks).values())

    def counted(self, newly: Iterable[Skips]) -> "Counts":
        """Of rows that a commit has hidden, how many for which reason."""
        hidden = {one.key: one.rows for one in newly}
        late, deleted = ({one.key: one.rows for one in self._of(late=late, deleted=not late)} for late in (True, False))
        lost = sum(len(rows & late[key]) for key, rows in hidden.items() if key in late)
        gone = sum(len(rows & deleted[key]) for key, rows in hidden.items() if key in deleted)
        return Counts(late=lost, deleted=gone, replaced=sum(map(len, hidden.values())) - lost - gone)

    def _of(self, *, late: bool, deleted: bool) -> Iterable[Skips]:
        return united(mark.skips for mark in self.marks if (mark.late, mark.deleted) == (late, deleted)).values()

    @property
    def sure(self) -> tuple[Skips, ...]:
        """Those that stand whatever others commit: a row that was replaced or deleted stays so."""
        return tuple(united(mark.skips for mark in self.marks if not mark.late).values())

    @property
    def unsure(self) -> "Marks":
        return Marks(marks=tuple(mark for mark in self.marks if mark.late))

    @property
    def outranking(self) -> set[str]:
        """The keys of chunksets that outrank new rows."""
        return {mark.by for mark in self.marks if mark.late and mark.by is not None}

    def revived(self, hidden: Mapping[str, BitMap]) -> "Marks":
        """Without new rows that were late because of rows that are hidden now."""
        return replace(self, marks=tuple(mark.without(hidden.get(mark.by or "", BitMap())) if mark.late else mark for mark in self.marks))

    def without_files(self, removed: Collection[str]) -> "Marks":
        """Without rows of these chunksets, and without rows that were late because of them: who took them away put others in
        their place, with which the change is compared again."""
        return replace(self, marks=tuple(mark for mark in self.marks if mark.skips.key not in removed and mark.by not in removed))

    def plus(self, other: "Marks") -> "Marks":
        return Marks(marks=self.marks + other.marks, requests=self.requests + other.requests)


def mark_batch(marks: Sequence[Mark], requests: int) -> pa.RecordBatch:
    """The requests of a task ride on a row of their own, which hides nothing."""
    rows = [_row(mark) for mark in marks]
    rows.append(
        {
            "partition": None,
            "file_name": None,
            "rows": None,
            "deleted": False,
            "late": False,
            "by": None,
            "by_rows": None,
            "requests": requests,
        }
    )
    return pa.RecordBatch.from_pylist(rows, schema=MARK_SCHEMA)


def _row(mark: Mark) -> dict[str, object]:
    rows = mark.skips.rows.copy()
    rows.run_optimize()
    return {
        "partition": mark.skips.partition,
        "file_name": mark.skips.file_name,
        "rows": rows.serialize(),
        "deleted": mark.deleted,
        "late": mark.late,
        "by": mark.by,
        "by_rows": np.asarray(mark.by_rows, "<i8").tobytes(),
        "requests": 0,
    }


def marks_of(batches: Iterable[pa.RecordBatch]) -> Marks:
    rows = [row for batch in batches for row in batch.to_pylist()]
    found = (
        Mark(
            skips=Skips(partition=PartitionPath(row["partition"]), file_name=row["file_name"], rows=BitMap.deserialize(row["rows"])),
            deleted=row["deleted"],
            late=row["late"],
            by=row["by"],
            by_rows=tuple(np.frombuffer(row["by_rows"], "<i8").tolist()),
        )
        for row in rows
        if row["rows"] is not None
    )
    return Marks(marks=tuple(found), requests=sum(row["requests"] for row in rows))
