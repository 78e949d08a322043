"""The commit of a rewrite: new chunksets come and their inputs go, as one entry.

Order matters, as for every commit: data before runs before entry. What others commit meanwhile stands, unless it removes an input
or hides rows of one: then the rewrite would bring rows back, and is refused.
"""

from collections.abc import Callable
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap

from needlefish.errors import ConflictError
from needlefish.format.column_stats_record import encode_column_stats
from needlefish.format.files_record import encode_files
from needlefish.format.metadata_key import file_key
from needlefish.format.run import KEY
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunKind, RunRef, TableState, Totals
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.rewrite.compact import check_rows
from needlefish.services.rewrite.inputs import live_infos
from needlefish.services.rewrite.plan import RewritePlan
from needlefish.services.rewrite.removal import removals, uncovered_removals
from needlefish.store import Store
from needlefish.table.commit import check_same_table, totals_of
from needlefish.table.point.consolidate import consolidated
from needlefish.table.point.coverage import Coverage
from needlefish.table.since import hidden_since
from needlefish.table.skips import skips_of, with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import Written
from needlefish.timeline import Proposal, Work, commit

# The last word on a proposal, with the state that it would follow.
Complete = Callable[[TableState, Proposal], Proposal]


def as_it_is(newest: TableState, proposal: Proposal) -> Proposal:
    return proposal


def commit_rewrite(
    store: Store,
    base: TableState,
    plan: RewritePlan,
    written: Written,
    *,
    complete: Complete = as_it_is,
    runtime: Runtime = SYSTEM,
    work: Work | None = None,
) -> TableState:
    """Puts what was written in the place of the plan's inputs, which ends `work` if there is one. `base` is what tasks have read.

    Raises ConflictError if an input is gone or has hidden rows that it had not in `base`, or if the table was redefined.
    """
    rewrite = Rewrite(store, base, plan, written, runtime)
    rewrite.put()

    def propose(newest: TableState | None) -> Proposal:
        assert newest is not None, "the log of an open table never becomes empty"
        return complete(newest, rewrite.propose(newest))

    return commit(store, base, propose, runtime, work)


class Rewrite:
    """One rewrite over all attempts to commit it. Remembers up to which version its inputs were looked at."""

    def __init__(self, store: Store, base: TableState, plan: RewritePlan, written: Written, runtime: Runtime) -> None:
        self._store = store
        self._base = base
        self._plan = plan
        self._written = written
        self._runtime = runtime
        self._checked = base
        self._runs: tuple[RunRef, ...] = ()
        self._uncovered: dict[tuple[str, tuple[str, ...]], RunRef] = {}
        snapshot = Snapshot(store=store, state=base)
        infos = live_infos(snapshot, plan.inputs)
        self._inputs: dict[str, ChunksetInfo] = dict(zip(plan.inputs, infos, strict=True))
        self._hidden = {
            file_key(info.partition, info.file_name): rows.count(0, info.rows) for info, rows in with_hidden(snapshot, infos) if rows
        }

    @property
    def _made(self) -> list[ChunksetInfo]:
        return [entry.info for entry in self._written.entries]

    @cached_property
    def _coverage(self) -> Coverage:
        return Coverage(self._store, self._base.definition, self._made, self._runtime)

    @property
    def _difference(self) -> Totals:
        made, gone = totals_of(self._made), totals_of(list(self._inputs.values()))
        return Totals(
            rows=made.rows - gone.rows,
            files=made.files - gone.files,
            bytes=made.bytes - gone.bytes,
            skipped=-sum(self._hidden.values()),
        )

    def put(self) -> None:
        """All that does not depend on what others commit meanwhile: one run of each kind, and those that tasks have put."""
        check_rows(
            self._store.uri, sum(info.rows for info in self._inputs.values()) - sum(self._hidden.values()), totals_of(self._made).rows
        )
        gone = removals(self._base.definition, self._inputs.values(), self._hidden)
        new: dict[RunKind, pa.Table] = {"files": encode_files(self._made), "column_stats": encode_column_stats(self._written.entries)}
        tables = {kind: _together(records, new.get(kind)) for kind, records in gone.items()}
        described = tuple(put_run(self._store, kind, records, self._runtime) for kind, records in tables.items() if records.num_rows)
        self._runs = (*described, *consolidated(self._store, self._base, self._written.runs, self._runtime))

    def propose(self, newest: TableState) -> Proposal:
        """The entry on top of `newest`, if the inputs are what they were."""
        check_same_table(self._base, newest, self._store.uri)
        self._check_inputs(newest)
        return Proposal(
            action=self._plan.action,
            runs_added=(*self._coverage.fitted(self._runs, newest.definition), *self._uncovered_runs(newest)),
            added=self._difference,
        )

    def _check_inputs(self, newest: TableState) -> None:
        if newest.version == self._checked.version:
            return
        live_infos(Snapshot(store=self._store, state=newest), self._inputs)
        since = hidden_since(self._store, self._checked, newest, self._inputs.keys())
        known = skips_of(Snapshot(store=self._store, state=self._base), since) if since else {}
        changed = [self._inputs[key].path for key, rows in since.items() if rows - known.get(key, BitMap())]
        if changed:
            more = f" (and {len(changed) - 1} more files)" if len(changed) > 1 else ""
            raise ConflictError(
                f"{self._store.uri}: rows of {changed[0]}{more} were replaced or deleted between version {self._checked.version} and "
                f"{newest.version}, while the {self._plan.action} was made; nothing of it was committed: plan it again"
            )
        self._checked = newest

    def _uncovered_runs(self, newest: TableState) -> tuple[RunRef, ...]:
        """Tombstones where an index names an input as one that it does not know; put once for the same files."""
        found = []
        for index in newest.definition.point_indexes:
            records = uncovered_removals(self._store, newest, index.uncovered_kind, self._inputs)
            if records.num_rows:
                known = (index.uncovered_kind, tuple(records[KEY].to_pylist()))
                if known not in self._uncovered:
                    self._uncovered[known] = put_run(self._store, index.uncovered_kind, records, self._runtime)
                found.append(self._uncovered[known])
        return tuple(found)


def _together(gone: pa.Table, new: pa.Table | None) -> pa.Table:
    """One run of both: no chunkset is in both, so that each key is there once."""
    return gone if new is None else pa.concat_tables([gone, new]).sort_by(KEY)
