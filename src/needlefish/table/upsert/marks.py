"""Marks: rows of one chunkset that a change hides, as tasks hand them back."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
        ("requests", pa.int64()),
    ]
)
# The same for engines that want words.
MARK_TEXT = "partition string, file_name string, rows binary, deleted boolean, late boolean, requests long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Rows of an older chunkset that are replaced or, with `deleted`, deleted; with `late`, new rows that an older one outranks."""

    skips: Skips
    deleted: bool = False
    late: bool = False


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

    def plus(self, other: "Marks") -> "Marks":
        return Marks(marks=self.marks + other.marks, requests=self.requests + other.requests)


def mark_batch(marks: Sequence[Mark], requests: int) -> pa.RecordBatch:
    """The requests of a task ride on a row of their own, which hides nothing."""
    rows = [_row(mark) for mark in marks]
    rows.append({"partition": None, "file_name": None, "rows": None, "deleted": False, "late": False, "requests": requests})
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
        "requests": 0,
    }


def marks_of(batches: Iterable[pa.RecordBatch]) -> Marks:
    rows = [row for batch in batches for row in batch.to_pylist()]
    found = (
        Mark(
            skips=Skips(partition=PartitionPath(row["partition"]), file_name=row["file_name"], rows=BitMap.deserialize(row["rows"])),
            deleted=row["deleted"],
            late=row["late"],
        )
        for row in rows
        if row["rows"] is not None
    )
    return Marks(marks=tuple(found), requests=sum(row["requests"] for row in rows))
