"""Plans of compactions and clusterings: which files are read, how they are grouped, and what becomes of them.

A plan has keys of files and figures, never a value of a row: it must not keep alive what was erased.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from needlefish.format.envelope import seal, unseal
from needlefish.model.chunkset import Curve, PartitionPath
from needlefish.model.log import FORMAT

# Do not rename: these are in every plan and log.
RewriteAction = Literal["compaction", "clustering"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Files of one partition whose rows are written together; one of which every row is hidden gives no output."""

    partition: PartitionPath
    # Keys of `files` records.
    files: tuple[str, ...]
    rows: int
    bytes: int
    # Rows that were hidden when the plan was made. A writer may hide more of them before it is executed.
    hidden: int

    @property
    def visible(self) -> int:
        return self.rows - self.hidden


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePlan:
    """What to do. `order` are field ids, empty for the row key, which a compaction always has."""

    format: int
    action: RewriteAction
    # The version whose files were looked at; a later one in which all of them are live will do as well.
    base_version: int
    groups: tuple[Group, ...]
    order: tuple[int, ...] = ()
    curve: Curve = "linear"
    # What a chunkset is to have, at most.
    target_bytes: int
    target_rows: int
    # What was worth it too and waits for the next plan.
    left_files: int = 0
    left_bytes: int = 0

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files of all groups."""
        return tuple(key for group in self.groups for key in group.files)

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)

    @property
    def hidden(self) -> int:
        return sum(group.hidden for group in self.groups)

    @property
    def bytes(self) -> int:
        return sum(group.bytes for group in self.groups)

    @property
    def partitions(self) -> tuple[PartitionPath, ...]:
        return tuple(dict.fromkeys(group.partition for group in self.groups))


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The sizes that chunksets are to have."""

    bytes: int
    rows: int


def make_plan(
    action: RewriteAction,
    base_version: int,
    groups: Iterable[Group],
    target: Target,
    *,
    order: tuple[int, ...] = (),
    curve: Curve = "linear",
    left_files: int = 0,
    left_bytes: int = 0,
) -> RewritePlan:
    """A plan in today's format."""
    return RewritePlan(
        format=FORMAT,
        action=action,
        base_version=base_version,
        groups=tuple(groups),
        order=order,
        curve=curve,
        target_bytes=target.bytes,
        target_rows=target.rows,
        left_files=left_files,
        left_bytes=left_bytes,
    )


def encode_plan(plan: RewritePlan) -> bytes:
    """Checksummed JSON."""
    return seal(plan)


def decode_plan(data: bytes, path: str) -> RewritePlan:
    """The plan in `data`; `path` is the object that errors name."""
    return unseal(data, RewritePlan, path)
