"""The seam of point indexes: what every kind of index run does, and what its callers may rely on.

1. A probe never misses: a granule that was added with a hash is among the hits of that hash.
2. Damage raises CorruptError; nothing that fails its checksum decides anything.
3. A probe reads what it needs and nothing that grows with the number of granules, beyond what the kind says of itself.
4. The store comes with each call, so that whoever asks is charged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from needlefish.format.granule_table import GranuleRef
from needlefish.index.cost import Cost
from needlefish.model.log import RunRef
from needlefish.runtime import Runtime
from needlefish.store import Store

Hashes = NDArray[np.uint64]

# Which of the chunksets with these `files` keys are still part of the table.
Alive = Callable[[Sequence[str]], Sequence[bool]]


@dataclass(frozen=True, slots=True)
class Hits:
    """Pairs: the hash at `places[i]` may be in granule `ordinals[i]`. Sorted by place, then by ordinal; no pair twice."""

    places: NDArray[np.int64]
    ordinals: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.places)


class PointReader(Protocol):
    """One index run, or one part of it. Safe to share between threads; what it keeps in memory is bounded."""

    ref: RunRef

    def probe(self, store: Store, hashes: Hashes) -> Hits:
        """Where these hashes may be; of a part, hashes outside its pages or buckets hit nothing."""
        ...

    def granules(self, store: Store, ordinals: Sequence[int]) -> list[GranuleRef]:
        """What the ordinals stand for."""
        ...

    def expected_of_probe(self, hashes: int) -> Cost:
        """What a probe of so many hashes is going to cost."""
        ...


class PointBuilder(Protocol):
    """Collects the hashes of granules and puts them as one run. Memory follows `size_bytes`: callers stop adding in time."""

    keys: int

    @property
    def size_bytes(self) -> int: ...

    def add(self, granule: GranuleRef, hashes: Hashes) -> None:
        """The hashes of one granule or file, in any order and repeated as often as they like."""
        ...

    def finish(self, store: Store, runtime: Runtime) -> RunRef:
        """Puts the run; a crash after it leaves an orphan that no version names."""
        ...


class PointMerge(Protocol):
    """Makes one run, or one part of one, of several. Memory holds the result's bytes and a stretch of each input."""

    def __call__(self, store: Store, runs: Sequence[RunRef], alive: Alive, runtime: Runtime, part: tuple[int, int] | None = None) -> RunRef:
        """`part` are the pages or buckets of the result that are wanted; granules of dead chunksets are left out."""
        ...
