"""Point indexes: which granules may hold a value. What a table declares, and what its log says of each index run."""

from dataclasses import dataclass
from typing import Literal

# Do not rename: these are in every log.
PointKind = Literal["postings", "cuckoo"]
Granularity = Literal["row_group", "file"]

# The kinds of index runs in the log are this and the name of their index.
INDEX_KIND = "index/"
# The same for runs like `files` that name the chunksets an index does not know.
UNCOVERED_KIND = "uncovered/"

# Keys that an index is laid out for unless its user knows better. A table with fewer pays two or three bits a key for the
# room, one with more gets more slots in its newer runs.
EXPECTED_KEYS = 2**27


@dataclass(frozen=True, slots=True, kw_only=True)
class PointIndexDefinition:
    """One point index of a table. `fields` are field ids; several are indexed together, as one composite value."""

    name: str
    fields: tuple[int, ...]
    kind: PointKind = "postings"
    granularity: Granularity = "row_group"
    # Granules that a find reads in vain, expected over the whole table once it holds `expected_keys`.
    false_reads: float = 0.1
    expected_keys: int = EXPECTED_KEYS
    # Of cuckoo filters alone.
    bits: int = 16
    buckets: int = 0

    @property
    def run_kind(self) -> str:
        return INDEX_KIND + self.name

    @property
    def uncovered_kind(self) -> str:
        return UNCOVERED_KIND + self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRun:
    """What a finder must know of an index run before it reads a byte of it.

    A large run is kept in parts, each a file with the pages or buckets from `first` up to `end`, and the same granules.
    """

    kind: PointKind
    # Entries in this file, and granules or files that its ordinals count.
    keys: int
    granules: int
    # Pages of postings or buckets of cuckoo filters: those that this file has.
    first: int
    end: int
    # Of postings: the slots of the whole run, and how many of them make a page.
    slots: int = 0
    page_slots: int = 0
    # Of cuckoo filters: fingerprint bits, buckets of the whole run, and the bytes of one bucket row.
    bits: int = 0
    buckets: int = 0
    row_bytes: int = 0
