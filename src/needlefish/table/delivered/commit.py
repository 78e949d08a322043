"""Committing what the tasks of one delivery wrote: as new rows, in the place of all rows, or in the place of those with the same keys.

No task can be started any more when an engine asks for the commit, so that keys are compared in this process: the key columns of
what was written, and of the granules that may have the same keys. Memory holds those of `_GROUP_ROWS` rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from needlefish.format.skips_record import Skips, skips_in
from needlefish.model.log import Action, Batch, TableState
from needlefish.model.schema import Field
from needlefish.runtime import SYSTEM, Runtime
from needlefish.store import RetriedStore
from needlefish.table.commit import commit_append
from needlefish.table.delivered.repeats import hide_repeats, refuse_repeats
from needlefish.table.row_changes import Committed, RowChanges, commit_changes, is_repeated
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import Written, collect
from needlefish.table.upsert.compare import compare_here
from needlefish.table.upsert.marks import Marks
from needlefish.table.upsert.plan import ComparePlan
from needlefish.table.upsert.run import healing_for, infos_written
from needlefish.table.upsert.sources import Source
from needlefish.timeline import Work
from needlefish.timeline.detached import Detached, abandon, resumed

Operation = Literal["append", "overwrite", "upsert"]

# Keys compared at once: each group asks the index, and sends its keys to the files that may have them.
_GROUP_ROWS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How rows are to be taken. `order_by` is of upserts alone."""

    operation: Operation = "append"
    order_by: Field | None = None
    batch: Batch | None = None

    @property
    def keeps_last(self) -> bool:
        """Of rows with the same key; the other operations refuse them."""
        return self.operation == "upsert"

    @property
    def action(self) -> Action:
        """What its instant says that it does."""
        return "append" if self.operation == "append" else "upsert"

    @property
    def needs_rows(self) -> bool:
        """Whether there is nothing to commit without any."""
        return self.operation != "overwrite" and self.batch is None


def commit_attempt(
    store: RetriedStore, state: TableState, detached: Detached, results: pa.Table, delivery: Delivery, runtime: Runtime = SYSTEM
) -> TableState:
    """Commits what the tasks of an attempt handed back, written under `state`, and ends the attempt in any case.

    Tasks without rows begin nothing, so that a delivery without any leaves no trace in the log.
    """
    if not results.num_rows and delivery.needs_rows:
        return abandon(store, state, detached, "no rows", runtime)
    with resumed(store, state, detached, runtime) as work:
        work.heartbeat.say("commit")
        commit_delivery(store, work.since(state), collect(results), delivery, work.runtime, work)
    return work.state


def commit_delivery(
    store: RetriedStore, state: TableState, written: Written, delivery: Delivery, runtime: Runtime = SYSTEM, work: Work | None = None
) -> Committed:
    """Makes what was written under `state` part of the table, as one version; without rows and without a batch there is none."""
    if is_repeated(state, delivery.batch):
        return Committed(state=state, repeated=True)
    if delivery.operation == "upsert":
        return _upsert(store, state, written, delivery, runtime, work)
    refuse_repeats(store, state.definition, infos_written(written))
    if delivery.operation == "overwrite":
        return _overwrite(store, state, written, delivery, runtime, work)
    if delivery.batch is not None:
        changes = RowChanges(action="append", written=written, batch=delivery.batch)
        return commit_changes(store, state, changes, runtime=runtime, work=work)
    return Committed(state=commit_append(store, state, written, runtime, work) if written.entries else state)


def _overwrite(
    store: RetriedStore, state: TableState, written: Written, delivery: Delivery, runtime: Runtime, work: Work | None
) -> Committed:
    """Hides every row there is, and those that others commit meanwhile; older versions still have them."""

    def heal(base: TableState, newest: TableState) -> Iterable[Skips]:
        # All that is there then, whoever brought it: what came meanwhile may be gone again.
        return () if newest.version == base.version else _everything(store, newest)

    changes = RowChanges(
        action="upsert" if written.entries else "delete", written=written, skips=tuple(_everything(store, state)), batch=delivery.batch
    )
    return commit_changes(store, state, changes, heal=heal, runtime=runtime, work=work)


def _everything(store: RetriedStore, state: TableState) -> Iterator[Skips]:
    infos = plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets()
    return (skips_in(info, range(info.rows)) for info in infos)


def _upsert(store: RetriedStore, state: TableState, written: Written, delivery: Delivery, runtime: Runtime, work: Work | None) -> Committed:
    order = delivery.order_by
    infos = infos_written(written)
    repeats = tuple(hide_repeats(store, state.definition, infos, order))
    sources = [Source(written=info) for info in infos]
    compare = ComparePlan(state=state, store=store.config, order_by=None if order is None else order.id)
    jobs = _ComparesHere(store)
    marks = jobs.compare(sources, compare) if state.runs_of("files") else Marks()
    heal = healing_for(store, sources, compare, jobs, marks.unsure)
    changes = RowChanges(action="upsert", written=written, skips=(*repeats, *marks.sure), batch=delivery.batch)
    return commit_changes(store, state, changes, heal=heal, runtime=runtime, work=work)


@dataclass(frozen=True, slots=True)
class _ComparesHere:
    """Fills the seam `Comparing`, group by group."""

    store: RetriedStore

    def compare(self, sources: Sequence[Source], plan: ComparePlan) -> Marks:
        found = Marks()
        for group in _groups(sources):
            found = found.plus(compare_here(self.store, group, plan))
        return found


def _groups(sources: Sequence[Source]) -> Iterator[list[Source]]:
    group: list[Source] = []
    rows = 0
    for source in sources:
        if group and rows + source.rows > _GROUP_ROWS:
            yield group
            group, rows = [], 0
        group.append(source)
        rows += source.rows
    if group:
        yield group
