"""One version of a table, with what is needed to read it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from needlefish.index.run_reader import RunReader
from needlefish.model.log import RunId, RunKind, TableState
from needlefish.store import Store
from needlefish.table.partition import Computed, computed_columns


class RunReaders:
    """Readers of immutable runs, shared by all snapshots of a handle and dropped with the runs themselves."""

    def __init__(self) -> None:
        self._known: dict[RunId, RunReader] = {}

    def of(self, state: TableState, kind: RunKind) -> tuple[RunReader, ...]:
        """Newest first. What the state no longer has is forgotten, so that the cache follows the live runs."""
        self._known = {run.id: self._known.get(run.id) or RunReader(run) for run in state.runs}
        return tuple(self._known[run.id] for run in state.runs_of(kind))


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A readable version."""

    store: Store
    state: TableState
    readers: RunReaders = field(default_factory=RunReaders, repr=False)

    def runs(self, kind: RunKind) -> Sequence[RunReader]:
        """The runs of one kind, newest first."""
        return self.readers.of(self.state, kind)

    @cached_property
    def partition_columns(self) -> tuple[Computed, ...]:
        return computed_columns(self.state.definition)
