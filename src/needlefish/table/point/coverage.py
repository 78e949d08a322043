"""Indexes that come and go while writers are at work: what a commit still says, and what it admits not to have indexed."""

from collections.abc import Sequence
from dataclasses import replace

from needlefish.format.files_record import encode_files
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.log import RunRef
from needlefish.model.point_index import INDEX_KIND
from needlefish.runtime import Runtime
from needlefish.store import Store


def same_but_indexes(one: TableDefinition, other: TableDefinition) -> bool:
    """Whether rows written under one definition are rows of the other: point indexes do not change them."""
    return one == other or replace(one, point_indexes=()) == replace(other, point_indexes=())


class Coverage:
    """The runs of one commit, as the definition that it meets wants them."""

    def __init__(self, store: Store, written: TableDefinition, infos: Sequence[ChunksetInfo], runtime: Runtime) -> None:
        self._store = store
        self._written = written
        self._infos = infos
        self._runtime = runtime
        self._uncovered: dict[str, RunRef] = {}

    def fitted(self, runs: Sequence[RunRef], met: TableDefinition) -> tuple[RunRef, ...]:
        """Without runs of indexes that are gone, with the chunksets named that a new index lacks."""
        if met.point_indexes == self._written.point_indexes:
            return tuple(runs)
        kept = {index.run_kind for index in met.point_indexes if index in self._written.point_indexes}
        new = [index.uncovered_kind for index in met.point_indexes if index not in self._written.point_indexes]
        standing = (run for run in runs if not run.kind.startswith(INDEX_KIND) or run.kind in kept)
        return (*standing, *(map(self._put, new) if self._infos else ()))

    def _put(self, kind: str) -> RunRef:
        """Once, however often the commit has to be proposed."""
        if kind not in self._uncovered:
            self._uncovered[kind] = put_run(self._store, kind, encode_files(self._infos), self._runtime)
        return self._uncovered[kind]
