"""Changes cut into shares that can be read apart from each other, by one process or by many tasks.

A share has rows of one side, those that came or those that went, and the other side's, which say whether a key was there before
or still is. Both are of one partition; where keys are global, of the whole table.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyroaring import BitMap

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition

# What a task reads: a few seconds of work, as for a scan.
SHARE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Rows of one chunkset, by their positions."""

    info: ChunksetInfo
    rows: BitMap

    @property
    def bytes(self) -> int:
        """Of the file, so much as the rows are of all of its rows."""
        return -(-self.info.bytes * len(self.rows) // max(1, self.info.rows))

    def may_share(self, other: "Part") -> bool:
        """Whether a key may be in both. Bounds are compared only where one schema has made both."""
        one, two = self.info, other.info
        return one.schema_id != two.schema_id or (one.first_key <= two.last_key and two.first_key <= one.last_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChange:
    """What one version did to rows: those that are visible since, and those that were until then."""

    version: int
    added: tuple[Part, ...]
    removed: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """`own` are the rows to hand out, which `version` brought or (not `came`) took away; `other` what they are compared with."""

    version: int
    came: bool
    own: tuple[Part, ...]
    other: tuple[Part, ...]

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.own)


def shares_of(change: VersionChange, definition: TableDefinition, most_bytes: int | None = None) -> Iterator[Share]:
    """What went, then what came; `most_bytes` cuts each side of a partition further, for tasks side by side."""
    added, removed = (_by_place(parts, definition) for parts in (change.added, change.removed))
    for came, owns, others in ((False, removed, added), (True, added, removed)):
        for place, parts in owns.items():
            for own in _cut(parts, most_bytes):
                other = tuple(part for part in others.get(place, ()) if any(part.may_share(one) for one in own))
                yield Share(version=change.version, came=came, own=own, other=other)


def packed(shares: Iterable[Share], most_bytes: int = SHARE_BYTES) -> Iterator[tuple[Share, ...]]:
    """Shares for one task each: many small ones together."""
    waiting: list[Share] = []
    for share in shares:
        if waiting and sum(one.bytes for one in waiting) + share.bytes > most_bytes:
            yield tuple(waiting)
            waiting = []
        waiting.append(share)
    if waiting:
        yield tuple(waiting)


def _by_place(parts: Iterable[Part], definition: TableDefinition) -> dict[str, list[Part]]:
    places: dict[str, list[Part]] = defaultdict(list)
    for part in parts:
        places["" if definition.properties.global_keys else part.info.partition].append(part)
    return places


def _cut(parts: list[Part], most_bytes: int | None) -> Iterator[tuple[Part, ...]]:
    taken: list[Part] = []
    taken_bytes = 0
    for part in parts:
        if taken and most_bytes is not None and taken_bytes + part.bytes > most_bytes:
            yield tuple(taken)
            taken, taken_bytes = [], 0
        taken.append(part)
        taken_bytes += part.bytes
    yield tuple(taken)
