"""Which files hold rows of some keys, hidden ones too: those of the newest version, and those that only older versions have.

Point indexes are not asked: an index that was built later knows visible rows alone. Statistics and filters know all rows of a file.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from needlefish.errors import CorruptError
from needlefish.format.files_record import decode_files, encode_files
from needlefish.format.metadata_key import file_key
from needlefish.format.run import path_of
from needlefish.index import newest
from needlefish.index.build import put_run
from needlefish.index.run_reader import RunReader
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.runtime import Runtime
from needlefish.services.clean.retired import Retired, known_tombstones, retired_between
from needlefish.store import RetriedStore
from needlefish.table.task import Written
from needlefish.table.upsert.marks import Marks
from needlefish.table.upsert.plan import ChangePlan, ComparePlan
from needlefish.table.upsert.run import ChangeOptions, plan_change, remove_work
from needlefish.table.upsert.sources import Source
from needlefish.table.upsert.write import note_of
from needlefish.timeline import Start, Work, working
from needlefish.timeline.replay import folded_at


class KeyJobs(Protocol):
    """Who looks for keys: Spark jobs, or this process."""

    def keys(self, plan: ChangePlan) -> Written: ...

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Holders:
    """Files with rows of the keys, as paths by `files` key."""

    keys: int
    live: dict[str, str]
    # Of older versions alone.
    retired: dict[str, str]

    @property
    def all(self) -> dict[str, str]:
        return self.retired | self.live

    def plus(self, other: "Holders") -> "Holders":
        return Holders(keys=self.keys, live=self.live | other.live, retired=self.retired | other.retired)


def find_holders(store: RetriedStore, state: TableState, jobs: KeyJobs, runtime: Runtime) -> Holders:
    """Looks at one version and at what those before it have besides. The keys lie in a work folder meanwhile."""
    with working(store, state, Start(action="delete"), runtime) as work:
        found = _looked(store, state, jobs, work)
        # Nothing was to be changed; the words are for whoever reads the log.
        work.end("looked for rows to erase")
    return found


def _looked(store: RetriedStore, state: TableState, jobs: KeyJobs, work: Work) -> Holders:
    plan = plan_change(store, state, ChangeOptions(), work)
    made: list[str] = []
    try:
        notes = [note_of(note) for note in jobs.keys(plan).notes]
        sources = [Source(deleted=file) for note in notes for file in note.key_files]
        older = _older_files(store, state, work.runtime)
        made += [path_of(run) for run in older.runs]
        live, retired = (_held(store, jobs, sources, one) for one in (bare(state), older))
    finally:
        remove_work(store, plan.work)
        store.delete(made)
    return Holders(keys=sum(source.rows for source in sources), live=live, retired=retired)


def bare(state: TableState) -> TableState:
    """The version with all rows that its files have, without indexes that may know fewer."""
    kinds = ("files", "column_stats", "bloom_filters")
    runs = tuple(run for run in state.runs if run.kind in kinds)
    return replace(state, runs=runs, definition=replace(state.definition, point_indexes=()))


def _held(store: RetriedStore, jobs: KeyJobs, sources: Sequence[Source], state: TableState) -> dict[str, str]:
    if not sources or not state.runs_of("files"):
        return {}
    keys = {mark.skips.key for mark in jobs.compare(sources, ComparePlan(state=state, store=store.config)).marks}
    readers = [RunReader(run) for run in state.runs_of("files")]
    infos = (info for records in newest.get(store, readers, sorted(keys)) for info in decode_files(records)) if keys else ()
    return {file_key(info.partition, info.file_name): info.path for info in infos}


def _older_files(store: RetriedStore, state: TableState, runtime: Runtime) -> TableState:
    """A state whose only run names the files that older versions alone have; without filters, each is looked into."""
    infos = list(retired_infos(store, state))
    runs = (put_run(store, "files", encode_files(infos), runtime, version=state.version),) if infos else ()
    return replace(bare(state), runs=runs)


def retired_infos(store: RetriedStore, state: TableState) -> Iterable[ChunksetInfo]:
    """Files that rewrites took away and no clean has removed."""
    seen: set[str] = set()
    for one in still_there(store, state):
        keys = [key for key in known_tombstones(store, state, one) if key not in seen]
        seen.update(keys)
        try:
            yield from _infos(store, one, keys)
        except CorruptError:
            # Its runs are gone with a clean that did not come to its end, and the files before them.
            if one.version > state.oldest:
                raise


def _infos(store: RetriedStore, one: Retired, keys: Sequence[str]) -> Iterable[ChunksetInfo]:
    readers = [RunReader(run) for run in one.before]
    for records in newest.get(store, readers, keys) if keys else ():
        yield from decode_files(records)


def still_there(store: RetriedStore, state: TableState) -> list[Retired]:
    """What entries took away since the last clean came to its end."""
    return retired_between(store, folded_at(store, state.cleaned), state.version) if state.version > state.cleaned else []
