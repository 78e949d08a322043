"""Random upserts, deletes, compactions, clusterings and merges against a dict: rewrites never change a row, whatever came before."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError
from needlefish.model.log import TableState
from needlefish.services.merge import merge
from needlefish.services.rewrite import CompactionPolicy, RewritePlan, commit_rewrite, plan_clustering, plan_compaction, written_here
from needlefish.store import RetriedStore, open_store
from needlefish.table.point.declare import PointIndex
from needlefish.table.snapshot import Snapshot
from needlefish.table.task import Written
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, delete_where, upsert_table
from needlefish.testing.tables import build_table, find_table, scan_table
from needlefish.timeline import catch_up, read_state_at

SCHEMA = "id int64, host string, n int64, v string"
SMALL = {"chunkset_rows": 6, "granule_rows": 2}
EAGER = CompactionPolicy(hidden_share=0.01, small_share=1, least_files=2)
Row = dict[str, Any]

_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A table to try, and what is a key there."""

    key: Callable[[Row], object] = lambda row: row["id"]
    partition_by: tuple[str, ...] = ()
    is_global: bool = False
    indexes: Sequence[PointIndex] | None = ()


KINDS = {
    "indexed": Kind(indexes=None),
    "by host, cuckoo": Kind(key=lambda row: (row["id"], row["host"]), partition_by=("host",), indexes=[PointIndex("id", kind="cuckoo")]),
    "global": Kind(partition_by=("host",), is_global=True, indexes=[PointIndex("v")]),
}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 11),
            "host": st.sampled_from(["a", "b", None]),
            "n": st.one_of(st.none(), st.integers(0, 3)),
            "v": st.sampled_from(["x", "y", "zz"]),
        }
    ),
    max_size=8,
)
# Versions that a writer lags behind.
BACK = st.sampled_from([0, 0, 0, 1, 3])
PLANS: dict[str, Callable[[Snapshot], RewritePlan | None]] = {
    "compaction": lambda snapshot: plan_compaction(snapshot, EAGER),
    "one group": lambda snapshot: plan_compaction(snapshot, CompactionPolicy(small_share=1, least_files=2, most_bytes=1)),
    "where": lambda snapshot: plan_compaction(snapshot, where="id > 4"),
    "by key": lambda snapshot: plan_clustering(snapshot),
    "by columns": lambda snapshot: plan_clustering(snapshot, ["n", "v"]),
    "z-order": lambda snapshot: plan_clustering(snapshot, ["v", "n", "id"], zorder=True, where="id >= 0"),
}


class Rewriting(RuleBasedStateMachine):
    """A table and a dict; and a rewrite that was made for some version and is committed later, if it still can be."""

    kind: Kind

    def __init__(self) -> None:
        super().__init__()
        self.store: RetriedStore = open_store(StoreConfig(uri=f"memory://rewrite-model-{next(_numbers)}"))
        self.rows: dict[object, Row] = {}
        self.versions: dict[int, list[Row]] = {}
        self.waiting: tuple[TableState, RewritePlan, Written] | None = None
        # Every state with what it shows.
        self.states: list[tuple[TableState, dict[object, Row]]] = []

    @initialize()
    def create(self) -> None:
        properties = SMALL | {"global_keys": self.kind.is_global}
        self.state = build_table(
            self.store, SCHEMA, "id", partition_by=self.kind.partition_by, indexes=self.kind.indexes, properties=properties
        )
        self.states = [(self.state, {})]

    def _seen(self, back: int) -> tuple[TableState, dict[object, Row]]:
        """What a writer that began some versions ago has read: rewrites may have taken its files away since."""
        return self.states[max(0, len(self.states) - 1 - back)]

    @rule(rows=ROWS, back=BACK)
    def upsert(self, rows: list[Row], back: int) -> None:
        self.state, _ = upsert_table(self.store, self._seen(back)[0], rows)
        self.rows |= {self.kind.key(row): row for row in rows}

    @rule(rows=ROWS, back=BACK)
    def delete(self, rows: list[Row], back: int) -> None:
        """One that has nothing to delete where it begins is over there and then."""
        seen, shown = self._seen(back)
        self.state, _ = delete_table(self.store, seen, rows)
        for row in rows if any(self.kind.key(row) in shown for row in rows) else ():
            self.rows.pop(self.kind.key(row), None)

    @rule(v=st.sampled_from(["x", "y"]), back=BACK)
    def delete_some(self, v: str, back: int) -> None:
        seen, shown = self._seen(back)
        self.state, _ = delete_where(self.store, seen, f"v = '{v}' AND n > 0")
        if any(row["v"] == v and row["n"] for row in shown.values()):
            self.rows = {key: row for key, row in self.rows.items() if not (row["v"] == v and row["n"])}

    @rule(name=st.sampled_from(sorted(PLANS)))
    def rewrite(self, name: str) -> None:
        plan = PLANS[name](Snapshot(store=self.store, state=self.state))
        if plan is not None:
            self.state = commit_rewrite(self.store, self.state, plan, written_here(self.store, self.state, plan))

    @rule(name=st.sampled_from(sorted(PLANS)))
    def begin(self, name: str) -> None:
        plan = PLANS[name](Snapshot(store=self.store, state=self.state))
        self.waiting = None if plan is None else (self.state, plan, written_here(self.store, self.state, plan))

    @rule()
    def end(self) -> None:
        """What others hid or rewrote meanwhile is a conflict; nothing else is."""
        if self.waiting is None:
            return
        (base, plan, written), self.waiting = self.waiting, None
        try:
            self.state = commit_rewrite(self.store, base, plan, written)
        except ConflictError:
            assert self.state.version > base.version

    @rule()
    def merge(self) -> None:
        self.state = merge(self.store, self.state)

    @invariant()
    def same_rows(self) -> None:
        if not hasattr(self, "state"):
            return
        self.state = catch_up(self.store, self.state) or self.state
        self.states.append((self.state, dict(self.rows)))
        found = scan_table(self.store, self.state)[0].to_pylist()
        assert _sorted(found) == _sorted(self.rows.values())
        assert self.state.totals.visible_rows == len(found)
        self.versions[self.state.version] = _sorted(found)
        for wanted in (3, 7):
            rows, _ = find_table(self.store, self.state, id=wanted)
            assert _sorted(rows.to_pylist()) == _sorted(row for row in self.rows.values() if row["id"] == wanted)

    def teardown(self) -> None:
        if not hasattr(self, "state"):
            return
        assert verify_table(Snapshot(store=self.store, state=self.state), data=True).problems == ()
        for version, rows in list(self.versions.items())[:3]:
            assert _sorted(scan_table(self.store, read_state_at(self.store, version, self.state))[0].to_pylist()) == rows


def _sorted(rows: Any) -> list[Row]:
    return sorted(rows, key=lambda row: (row["id"], str(row["host"])))


@pytest.mark.parametrize("kind", KINDS)
def test_rewrites_against_a_dict(kind: str) -> None:
    machine = type("Machine", (Rewriting,), {"kind": KINDS[kind]})
    run_state_machine_as_test(machine, settings=settings(max_examples=12, stateful_step_count=14))
