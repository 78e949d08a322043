"""Point indexes of tables that have rows already: what tasks do to each file, and the commit that makes the index true.

A build reads one version. What others commit meanwhile is indexed in further, smaller rounds; what comes even then is named as
not covered, so that finds look there without the index. Nobody waits for a build, and a crash leaves orphan runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, InvalidError
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import ChunksetEntries
from needlefish.model.log import RunRef, TableState
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.shares import Share, share_row
from needlefish.store import Store, open_store
from needlefish.table.as_written import as_written
from needlefish.table.chunkset_entries import PointCollector
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.point.consolidate import consolidate_here, plan_consolidation
from needlefish.table.point.coverage import Coverage, same_but_indexes
from needlefish.table.point.runs import PointRuns
from needlefish.table.read_task import infos_of
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.since import chunksets_since
from needlefish.table.snapshot import Snapshot
from needlefish.timeline import Log, Proposal, Start, Work, catch_up, working
from needlefish.version import WRITER

# Rounds that follow what others commit; each is as short as the one before it was long.
_MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan:
    """What tasks need to know. `keys` is about how many the table has, which the slots are laid out for."""

    index: PointIndexDefinition
    definition: TableDefinition
    keys: int
    # The attempt that all ids begin with.
    owner: str = ""

    @property
    def only(self) -> TableDefinition:
        """The table as if it had no other index."""
        return replace(self.definition, point_indexes=(self.index,))

    def keys_before(self, infos: Iterable[ChunksetInfo]) -> dict[str, int]:
        """What the index has, or is going to have, besides these files."""
        return {self.index.name: max(0, self.keys - sum(info.rows for info in infos))}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildTask:
    """A callable over batches of chunkset infos that any process can run. Memory holds one granule, and the keys of one run."""

    plan: BuildPlan
    store: StoreConfig

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store, infos = open_store(self.store), (info for rows in batches for info in infos_of(rows))
        yield share_row(Share(runs=tuple(index_files(store, self.plan, infos, SYSTEM.owned(self.plan.owner)))))


def index_files(store: Store, plan: BuildPlan, infos: Iterable[ChunksetInfo], runtime: Runtime) -> Iterator[RunRef]:
    """Reads the indexed columns of every file once and puts runs of what they hold."""
    points = PointRuns(plan.only, {}, store, runtime, plan.keys)
    for info in infos:
        yield from points.add(_indexed(store, plan.only, info))
    yield from points.finish()


def _indexed(store: Store, definition: TableDefinition, info: ChunksetInfo) -> ChunksetEntries:
    """What the index has of one file: nothing if the file is older than the indexed columns."""
    written = as_written(definition, info)
    collector = PointCollector(written)
    if collector.fields:
        chunkset = open_chunkset(store, written, info)
        for number in range(len(info.granules)):
            collector.add(chunkset.read([number], collector.fields))
    return ChunksetEntries(info=info, column_stats=(), bloom_filters=(), point_entries=collector.point_entries())


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexResult:
    """What a build did: `keys` entries over `files` files in `bytes` bytes. `uncovered` files came too late for it."""

    version: int
    index: str
    keys: int
    files: int
    bytes: int
    uncovered: int
    seconds: float

    @property
    def bits_per_key(self) -> float:
        return 8 * self.bytes / self.keys if self.keys else 0.0


# Runs over these files, with one run or the parts of one as the result: a Spark job, or a loop in a test.
Job = Callable[[BuildPlan, Sequence[ChunksetInfo]], Sequence[RunRef]]


def build_here(store: Store, runtime: Runtime = SYSTEM) -> Job:
    """The work in this process, for tables that are small."""

    def job(plan: BuildPlan, infos: Sequence[ChunksetInfo]) -> Sequence[RunRef]:
        owned = runtime.owned(plan.owner)
        runs = tuple(index_files(store, plan, infos, owned))
        return consolidate_here(store, plan_consolidation(plan.only, plan.keys_before(infos), runs), owned)

    return job


def build_index(
    store: Store, base: TableState, index: PointIndexDefinition, job: Job, runtime: Runtime = SYSTEM
) -> tuple[TableState, IndexResult]:
    """Makes `index` part of the table, or makes it anew if it is there already."""
    started = runtime.clock.monotonic()
    _check_new(base, index)
    with working(store, base, Start(action="index"), runtime) as work:
        built = _Build(store, index, job, work.claim.attempt)
        seen = built.first(base)
        for _ in range(_MOST_ROUNDS):
            now = catch_up(store, seen) or seen
            if not built.follow(seen, now):
                break
            seen = now
        after = _commit(store, base, seen, built, work)
    seconds = runtime.clock.monotonic() - started
    return after, IndexResult(
        version=after.version,
        index=index.name,
        keys=sum(run.point.keys for run in built.runs if run.point is not None),
        files=built.files,
        bytes=sum(run.bytes for run in built.runs),
        uncovered=sum(run.records for run in after.runs_of(index.uncovered_kind)),
        seconds=seconds,
    )


def _check_new(base: TableState, index: PointIndexDefinition) -> None:
    for found in base.definition.point_indexes:
        if found.name == index.name and found != index:
            raise InvalidError(
                f"the table has a point index named {index.name!r} already; drop it first, or give the new one another name="
            )


class _Build:
    """The runs so far, and the files they cover."""

    def __init__(self, store: Store, index: PointIndexDefinition, job: Job, owner: str) -> None:
        self.index = index
        self._owner = owner
        self.runs: list[RunRef] = []
        self.files = 0
        self._store = store
        self._job = job

    def first(self, base: TableState) -> TableState:
        infos = list(plan_scan(Snapshot(store=self._store, state=base), ScanRequest()).chunksets())
        self._add(base, infos)
        return base

    def follow(self, seen: TableState, now: TableState) -> bool:
        """Covers what came after `seen`; whether anything did."""
        infos = list(chunksets_since(self._store, seen, now))
        self._add(now, infos)
        return bool(infos)

    def _add(self, state: TableState, infos: Sequence[ChunksetInfo]) -> None:
        if infos:
            plan = BuildPlan(index=self.index, definition=state.definition, keys=state.totals.rows, owner=self._owner)
            self.runs += self._job(plan, infos)
            self.files += len(infos)


def _commit(store: Store, base: TableState, seen: TableState, built: _Build, work: Work) -> TableState:
    """`seen` is the last version that the build covers. A rebuilt index replaces all that was said of it up to there."""
    index = built.index
    kinds = (index.run_kind, index.uncovered_kind)

    def propose(state: TableState | None) -> Proposal:
        assert state is not None, "the log of an open table never becomes empty"
        _check_alone(store, base, state, index)
        others = tuple(found for found in state.definition.point_indexes if found.name != index.name)
        definition = replace(state.definition, point_indexes=(*others, index))
        late = () if index in state.definition.point_indexes else tuple(chunksets_since(store, seen, state))
        unseen = Coverage(store, replace(definition, point_indexes=others), late, work.runtime).fitted((), definition)
        # Merged runs and late writers' words among them: kept, they would name files that the build has as well.
        replaced = tuple(run.id for run in state.runs if run.kind in kinds and (run.version or 0) <= seen.version)
        return Proposal(action="index", definition=definition, runs_added=(*built.runs, *unseen), runs_removed=replaced)

    return work.commit(seen, propose)


def _check_alone(store: Store, base: TableState, state: TableState, index: PointIndexDefinition) -> None:
    """Nobody else may have changed the columns or an index of this name: its runs would mix with ours."""
    if not same_but_indexes(base.definition, state.definition):
        raise ConflictError(f"{store.uri} was redefined between version {base.version} and {state.version}; build the index again")
    before, now = (next((found for found in one.definition.point_indexes if found.name == index.name), None) for one in (base, state))
    if before is None and now is not None:
        raise ConflictError(f"{store.uri}: somebody else made an index {index.name!r} meanwhile; see what it is, or give another name=")
    if before != now:
        raise ConflictError(f"{store.uri}: index {index.name!r} was dropped while it was built anew")


def drop_index(store: Store, base: TableState, name: str, runtime: Runtime = SYSTEM) -> TableState:
    """Forgets an index; finds go on without it. Its runs stay for older versions until a clean removes them."""

    def propose(state: TableState | None) -> Proposal:
        assert state is not None, "the log of an open table never becomes empty"
        index = next((found for found in state.definition.point_indexes if found.name == name), None)
        if index is None:
            raise ConflictError(f"{store.uri}: index {name!r} is gone already")
        kept = tuple(found for found in state.definition.point_indexes if found is not index)
        kinds = (index.run_kind, index.uncovered_kind)
        gone = tuple(run.id for run in state.runs if run.kind in kinds)
        return Proposal(action="drop_index", definition=replace(state.definition, point_indexes=kept), runs_removed=gone)

    return Log(store, WRITER, runtime).append(base, propose)
