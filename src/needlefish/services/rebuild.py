"""Rebuilding runs of one kind from footers and data: what tasks do to each file, and the commit that replaces the runs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import msgspec
import pyarrow as pa

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError, CorruptError, InvalidError, NotFoundError
from needlefish.format.files_record import encode_files
from needlefish.format.metadata_key import file_key
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import ChunksetEntries
from needlefish.model.log import RunKind, RunRef, TableState, Totals
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.recover import FileClue
from needlefish.services.recovered_info import recovered_info
from needlefish.services.shares import EntryRuns, Share, share_row
from needlefish.store import Store, open_store
from needlefish.table.as_written import as_written
from needlefish.table.chunkset_entries import FilterCollector, FooterStats
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.commit import totals_of
from needlefish.table.row_stats import RowStats, primitive_fields
from needlefish.table.since import removed_since
from needlefish.table.skips import with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.timeline import Proposal, Work, commit


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """What a rebuild did. `lost` names what could not be recovered, and why; nothing else is missing."""

    version: int
    kind: str
    files: int
    runs_added: int
    runs_removed: int
    lost: tuple[str, ...]
    seconds: float


def kind_from(given: str, definition: TableDefinition) -> str:
    """A kind of run that can be rebuilt."""
    if given == "skips":
        raise InvalidError(
            "kind is 'skips'; no data file says which of its rows are hidden, so that these runs cannot be made anew: "
            "restore the run that verify names from a copy, or open the last version before it"
        )
    made = (kind for kind in get_args(RunKind) if kind != "skips")
    kinds = (*made, *(index.run_kind for index in definition.point_indexes))
    if given in kinds:
        return given
    raise InvalidError(f"kind is {given!r}; runs that can be rebuilt are {', '.join(kinds)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildTask:
    """A callable over batches of clues that any process can run. Memory holds one granule, and the filters of one run."""

    kind: str
    definition: TableDefinition
    store: StoreConfig
    # The attempt that all ids begin with.
    owner: str = ""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.store)
        infos: list[ChunksetInfo] = []
        lost: list[str] = []
        runs = EntryRuns(self.definition, store, SYSTEM.owned(self.owner))
        for clue in (msgspec.msgpack.decode(item, type=FileClue) for rows in batches for item in rows["item"].to_pylist()):
            try:
                entry = rebuilt(self.kind, store, self.definition, clue)
                infos.append(entry.info)
                runs.add(entry)
            except (CorruptError, NotFoundError, InvalidError) as error:
                lost.append(_lost_words(clue, error))
                # An info whose file is damaged stays: a scan must say so rather than leave the rows out.
                infos += [clue.info] if clue.info is not None and self.kind == "files" else []
        yield share_row(Share(infos=tuple(infos), runs=runs.finish(), lost=tuple(lost)))


def _lost_words(clue: FileClue, error: Exception) -> str:
    name = clue.info.path if clue.info else f"{clue.file_name} of partition {clue.partition}"
    return f"{name}: the file is missing" if isinstance(error, NotFoundError) else str(error)


def rebuilt(kind: str, store: Store, definition: TableDefinition, clue: FileClue) -> ChunksetEntries:
    """One file's entries of one kind, from the file itself."""
    if kind == "files":
        return ChunksetEntries(info=recovered_info(store, definition, clue), column_stats=(), bloom_filters=())
    assert clue.info is not None, "only the files themselves are rebuilt without their infos"
    written = as_written(definition, clue.info)
    chunkset = open_chunkset(store, written, clue.info)
    collector: FilterCollector | FooterStats | _AllRows = FilterCollector(written)
    if kind == "column_stats":
        # Our own footers are believed, other writers' are not.
        collector = FooterStats(written) if clue.info.adopted is None else _AllRows(written)
    for number in range(chunkset.metadata.num_row_groups) if collector.fields else ():
        collector.add(chunkset.read([number], collector.fields))
    if isinstance(collector, FilterCollector):
        return ChunksetEntries(info=clue.info, column_stats=(), bloom_filters=collector.bloom_filters())
    return ChunksetEntries(info=clue.info, column_stats=collector.column_stats(chunkset.metadata), bloom_filters=())


class _AllRows(RowStats):
    """Statistics of every column from its rows."""

    def __init__(self, written: TableDefinition) -> None:
        self.fields = primitive_fields(written.schema)
        super().__init__(self.fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """The state after a rebuild, and the runs that came and went."""

    state: TableState
    added: tuple[RunRef, ...] = ()
    removed: tuple[RunRef, ...] = ()


def commit_rebuild(
    store: Store, base: TableState, kind: str, share: Share, *, whole: bool, runtime: Runtime = SYSTEM, work: Work | None = None
) -> Rebuilt:
    """Puts the new runs in the place of those that were live at `base`.

    Runs that others committed meanwhile stay. Without `whole` nothing goes: the new records win by being newer.
    """
    added = share.runs
    if kind == "files" and share.infos:
        added = (put_run(store, kind, encode_files(share.infos), runtime),)
    replaced = {run.id for run in base.runs_of(kind)} if whole else set()
    if not added and not replaced:
        return Rebuilt(state=base)
    correction = _correction(store, base, share.infos) if whole and kind == "files" else Totals()
    removed: tuple[RunRef, ...] = ()

    def propose(state: TableState | None) -> Proposal:
        nonlocal removed
        assert state is not None, "the log of an open table never becomes empty"
        _check_still_live(store, base, state, share.infos)
        removed = tuple(run for run in state.runs if run.id in replaced)
        return Proposal(action="rebuild", runs_added=added, runs_removed=tuple(run.id for run in removed), added=correction)

    after = commit(store, base, propose, runtime, work)
    return Rebuilt(state=after, added=added, removed=removed)


def _correction(store: Store, base: TableState, infos: Sequence[ChunksetInfo]) -> Totals:
    """What the table's sums were off by: nothing, unless files are gone for good."""
    now, before = totals_of(infos), base.totals
    if now == replace(before, skipped=0):
        return Totals()
    skipped = sum(len(hidden.rows) for _, hidden in with_hidden(Snapshot(store=store, state=base), infos) if hidden)
    return Totals(
        rows=now.rows - before.rows, files=now.files - before.files, bytes=now.bytes - before.bytes, skipped=skipped - before.skipped
    )


def _check_still_live(store: Store, base: TableState, state: TableState, infos: Sequence[ChunksetInfo]) -> None:
    """A file that somebody removed while the rebuild ran must not come back as the newer record, of whatever kind: every
    kind tells which files there are, should the others be lost."""
    removed = removed_since(store, base, state)
    if any(file_key(info.partition, info.file_name) in removed for info in infos):
        raise ConflictError(f"{store.uri}: files were removed between version {base.version} and {state.version}; rebuild again")


def without_gaps(share: Share, base: TableState, *, whole: bool) -> Share:
    """The share with a word on files that the log counts and no run names."""
    missing = base.totals.files - len(share.infos)
    if not whole or missing <= 0:
        return share
    return replace(share, lost=(*share.lost, f"{missing} of {base.totals.files} files are named by no readable run"))
