"""One version of a table, with what is needed to read it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from needlefish.index.point import PointReader
from needlefish.index.point_kinds import point_reader
from needlefish.index.recent import Recent
from needlefish.index.run_reader import Blocks, RunReader
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunId, RunRef, TableState
from needlefish.model.point_index import PointIndexDefinition
from needlefish.store import Store
from needlefish.table.chunkset_reader import Footers
from needlefish.table.partition import Computed, computed_columns

T = TypeVar("T")

# What a handle keeps at most. A block of 256 chunksets takes some 80 KiB, so that 100,000 files fit; an info takes about
# 1 KiB and the footer of a file with 3 granules of 7 columns 26 KiB.
_BLOCKS_BYTES = 32 * 1024 * 1024
_INFOS_BYTES = 16 * 1024 * 1024
_FOOTERS_BYTES = 32 * 1024 * 1024
# What a chunkset info takes without its granules, and each of these.
_INFO_BYTES = 1024
_GRANULE_BYTES = 160


class Gone:
    """Stands for a chunkset that is not part of the table any more, though an index run still knows it."""


GONE = Gone()

# By `files` key.
Infos = Recent[str, ChunksetInfo | Gone]


class _Kept(Generic[T]):
    """Readers of one sort. A state's own are looked up by kind; from one state to the next, those of runs in both are kept."""

    def __init__(self, reader: Callable[[RunRef], T]) -> None:
        self._reader = reader
        self._known: dict[RunId, T] = {}
        # Swapped as one, since threads may share a handle.
        self._view: tuple[TableState | None, dict[str, tuple[T, ...]]] = (None, {})

    def of(self, state: TableState, kind: str) -> tuple[T, ...]:
        """Newest first."""
        seen, by_kind = self._view
        if seen is not state:
            live = {run.id for run in state.runs}
            self._known = {run_id: reader for run_id, reader in self._known.items() if run_id in live}
            by_kind = {}
            self._view = (state, by_kind)
        found = by_kind.get(kind)
        if found is None:
            known = self._known
            found = by_kind[kind] = tuple(known.setdefault(run.id, self._reader(run)) for run in state.runs_of(kind))
        return found


class RunReaders:
    """Readers of immutable runs, shared by all snapshots of a handle and dropped with the runs themselves.

    Beside them is what finds use again: blocks of `files` runs, chunkset infos and footers, each bounded.
    """

    def __init__(self) -> None:
        self._blocks: Blocks = Recent(_BLOCKS_BYTES)
        self._infos: tuple[Sequence[RunReader], Infos] = ((), Recent(_INFOS_BYTES))
        self.footers: Footers = Recent(_FOOTERS_BYTES)
        self.metadata: _Kept[RunReader] = _Kept(self._metadata_reader)
        self.points: _Kept[PointReader] = _Kept(point_reader)

    def _metadata_reader(self, ref: RunRef) -> RunReader:
        # Filters would push out everything else.
        return RunReader(ref, self._blocks if ref.kind == "files" else None)

    def infos(self, state: TableState) -> Infos:
        """What was read of the chunksets of exactly these `files` runs: with another run a chunkset may be gone."""
        runs = self.metadata.of(state, "files")
        # Swapped as one, since threads may share a handle.
        known, infos = self._infos
        if known != runs:
            infos = Recent(_INFOS_BYTES)
            self._infos = (runs, infos)
        return infos


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A readable version."""

    store: Store
    state: TableState
    readers: RunReaders = field(default_factory=RunReaders, repr=False)

    def runs(self, kind: str) -> Sequence[RunReader]:
        """The metadata runs of one kind, newest first."""
        return self.readers.metadata.of(self.state, kind)

    def point_runs(self, index: PointIndexDefinition) -> Sequence[PointReader]:
        """The runs of a point index, and parts of runs."""
        return self.readers.points.of(self.state, index.run_kind)

    def keep_info(self, key: str, info: ChunksetInfo | Gone) -> None:
        self.infos.keep(key, info, _INFO_BYTES + (0 if isinstance(info, Gone) else _GRANULE_BYTES * len(info.granules)))

    @cached_property
    def infos(self) -> Infos:
        """Chunksets of this version that were looked up before."""
        return self.readers.infos(self.state)

    @property
    def footers(self) -> Footers:
        return self.readers.footers

    @cached_property
    def partition_columns(self) -> tuple[Computed, ...]:
        return computed_columns(self.state.definition)
