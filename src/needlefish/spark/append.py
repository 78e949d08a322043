"""Appending a frame: route by partition, shuffle by range, sort by key, write chunksets in tasks, commit once.

Ranges rather than hashes decide which task gets a row: the chunksets of one commit then share no keys, so that key
ranges prune. The price is Spark's sampling pass over the input.
"""

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from needlefish.model.definition import TableDefinition
from needlefish.model.log import TableState
from needlefish.runtime import SYSTEM, Runtime
from needlefish.spark.errors import our_errors
from needlefish.spark.index import consolidate
from needlefish.spark.reachable import check_reachable
from needlefish.spark.routing import key_order, routed
from needlefish.spark.types import type_texts
from needlefish.store import RetriedStore
from needlefish.table.chunkset_writer import WritePlan
from needlefish.table.commit import commit_append, totals_of
from needlefish.table.conform import check_columns
from needlefish.table.point.runs import indexed_keys
from needlefish.table.task import RESULT_TEXT, WriteTask, Written, collect
from needlefish.timeline import Start, Work, working


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """What an append did. `version` is the table's after it."""

    version: int
    rows: int
    files: int
    bytes: int
    seconds: float


def append_frame(frame: DataFrame, state: TableState, store: RetriedStore, runtime: Runtime = SYSTEM) -> tuple[TableState, AppendResult]:
    """Writes every row of `frame` and commits them as one version."""
    started = runtime.clock.monotonic()
    definition = state.definition
    check_reachable(store)
    check_columns(type_texts(frame.schema), definition)
    with working(store, state, Start(action="append"), runtime) as work:
        base = work.since(state)
        written = _written(frame, base, store, work)
        if written.entries:
            work.heartbeat.say("commit")
            commit_append(store, base, written, work.runtime, work)
    totals = totals_of([entry.info for entry in written.entries])
    seconds = runtime.clock.monotonic() - started
    after = work.state
    return after, AppendResult(version=after.version, rows=totals.rows, files=totals.files, bytes=totals.bytes, seconds=seconds)


def _written(frame: DataFrame, state: TableState, store: RetriedStore, work: Work) -> Written:
    definition, known = state.definition, indexed_keys(state)
    plan = WritePlan(definition=definition, prev_max=state.version, indexed_keys=known, owner=work.claim.attempt)
    work.heartbeat.say("write")
    with our_errors():
        rows = _sorted_by_key(frame, definition)
        written = collect(rows.mapInArrow(WriteTask(plan=plan, store=store.config).__call__, RESULT_TEXT).toArrow())
        return replace(written, runs=consolidate(frame.sparkSession, store, definition, known, written.runs, work.runtime))


def _sorted_by_key(frame: DataFrame, definition: TableDefinition) -> DataFrame:
    """Every task gets a range of (partition, key), in that order."""
    frame, order = routed(frame, definition)
    by = key_order(order)
    return frame.repartitionByRange(*by).sortWithinPartitions(*by)
