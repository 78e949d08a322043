"""Rebuilding runs as a Spark job: files are dealt out by their keys, so that the runs of tasks do not overlap."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from needlefish.errors import InvalidError
from needlefish.model.log import TableState
from needlefish.model.point_index import INDEX_KIND
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.rebuild import RebuildResult, RebuildTask, commit_rebuild, without_gaps
from needlefish.services.recover import FileClue, clue_of, live_files
from needlefish.services.shares import SHARE_TEXT, Share, item_rows, joined
from needlefish.spark.dealing import dealt
from needlefish.spark.errors import our_errors
from needlefish.spark.index import index_table
from needlefish.spark.reachable import check_reachable
from needlefish.store import RetriedStore
from needlefish.table.partition.select import parse_partitions
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.timeline import Start, working


def rebuild_runs(
    spark: SparkSession,
    state: TableState,
    store: RetriedStore,
    kind: str,
    partitions: Mapping[str, object] | None,
    runtime: Runtime = SYSTEM,
) -> tuple[TableState, RebuildResult]:
    """Makes all runs of one kind anew, or those records that belong to some partitions."""
    started = runtime.clock.monotonic()
    check_reachable(store)
    if kind.startswith(INDEX_KIND):
        return _index(spark, state, store, kind, partitions, runtime)
    whole = partitions is None
    with working(store, state, Start(action="rebuild"), runtime) as work:
        clues = _clues(Snapshot(store=store, state=state), kind, partitions)
        share = _share(spark, RebuildTask(kind=kind, definition=state.definition, store=store.config, owner=work.claim.attempt), clues)
        share = without_gaps(share, state, whole=whole) if kind == "files" else share
        done = commit_rebuild(store, state, kind, share, whole=whole, runtime=work.runtime, work=work)
    return work.state, RebuildResult(
        version=work.state.version,
        kind=kind,
        files=len(share.infos),
        runs_added=len(done.added),
        runs_removed=len(done.removed),
        lost=share.lost,
        seconds=runtime.clock.monotonic() - started,
    )


def _index(
    spark: SparkSession,
    state: TableState,
    store: RetriedStore,
    kind: str,
    partitions: Mapping[str, object] | None,
    runtime: Runtime,
) -> tuple[TableState, RebuildResult]:
    """An index is made anew whole: its runs hold no partition apart."""
    if partitions is not None:
        raise InvalidError(f"partitions is {partitions!r}; an index is made anew for the whole table: leave partitions out")
    index = next(found for found in state.definition.point_indexes if found.run_kind == kind)
    after, built = index_table(spark, state, store, index, runtime)
    return after, RebuildResult(
        version=built.version,
        kind=kind,
        files=built.files,
        runs_added=len(after.runs_of(kind)),
        runs_removed=len(state.runs_of(kind)),
        lost=(),
        seconds=built.seconds,
    )


def _clues(snapshot: Snapshot, kind: str, partitions: Mapping[str, object] | None) -> Sequence[FileClue]:
    if kind == "files":
        return live_files(snapshot, parse_partitions(partitions, snapshot.partition_columns))
    return [clue_of(info) for info in plan_scan(snapshot, ScanRequest(partitions=partitions)).chunksets()]


def _share(spark: SparkSession, task: RebuildTask, clues: Sequence[FileClue]) -> Share:
    if not clues:
        return Share()
    items: pa.Table = item_rows((clue.key, clue) for clue in clues)
    total_bytes = sum(clue.info.bytes for clue in clues if clue.info)
    with our_errors():
        return joined(dealt(spark, items, total_bytes).mapInArrow(task.__call__, SHARE_TEXT).toArrow())
