"""A sample of granules: how many distinct values each has, how many granules share one, and how fast indexes of them are built."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from needlefish.filters.hash import hash_key
from needlefish.format.granule_table import GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.schema import Field
from needlefish.runtime import in_parallel
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot

_GRANULES = 64
# Drawn by a fixed rule, so that the same version gets the same advice.
_SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGranule:
    """One granule's distinct hashes, and how many rows and nulls it has."""

    ref: GranuleRef
    rows: int
    nulls: int
    hashes: NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Some granules of a table, and how many there are in all."""

    granules: tuple[SampledGranule, ...]
    all_granules: int
    all_files: int
    all_rows: int

    @property
    def rows(self) -> int:
        return sum(granule.rows for granule in self.granules)

    @property
    def keys_per_row(self) -> float:
        return sum(len(granule.hashes) for granule in self.granules) / max(1, self.rows)

    @property
    def keys(self) -> int:
        """About how many entries an index of the whole table has."""
        return round(self.keys_per_row * self.all_rows)

    @property
    def null_share(self) -> float:
        return sum(granule.nulls for granule in self.granules) / max(1, self.rows)

    @property
    def granules_per_value(self) -> float:
        """One, and the share of the other sampled granules that hold the same value, taken for all others."""
        if len(self.granules) < 2 or not self.keys_per_row:
            return 1.0
        _, counts = np.unique(np.concatenate([granule.hashes for granule in self.granules]), return_counts=True)
        # A value counts as often as it is met, since those are the ones that are looked for.
        others = float((counts * (counts - 1)).sum() / counts.sum()) / (len(self.granules) - 1)
        return 1.0 + others * (self.all_granules - 1)


def take_sample(snapshot: Snapshot, fields: Sequence[Field]) -> Sample:
    """Streams over all chunkset infos, keeps some granules of some, and reads the columns there."""
    chance = np.random.default_rng(_SEED)
    kept: list[tuple[float, ChunksetInfo, int]] = []
    granules = files = 0
    for info in plan_scan(snapshot, ScanRequest()).chunksets():
        files += 1
        granules += len(info.granules)
        kept += ((chance.random(), info, number) for number in range(len(info.granules)))
        kept = sorted(kept, key=lambda found: found[0])[:_GRANULES]
    read = in_parallel(lambda found: _read(snapshot, fields, found[1], found[2]), kept)
    rows = snapshot.state.totals.rows
    return Sample(granules=tuple(read), all_granules=granules, all_files=files, all_rows=rows)


def _read(snapshot: Snapshot, fields: Sequence[Field], info: ChunksetInfo, number: int) -> SampledGranule:
    rows = open_chunkset(snapshot.store, snapshot.state.definition, info).read([number], fields)
    hashed = hash_key([rows[field.name] for field in fields])
    present = hashed.present()
    ref = GranuleRef(file_key(info.partition, info.file_name), number)
    return SampledGranule(ref=ref, rows=rows.num_rows, nulls=rows.num_rows - len(present), hashes=np.unique(present))
