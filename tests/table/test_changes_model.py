"""Random upserts, deletes and merges: the changes between any two versions, taken over the rows of the first, give those of the second."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlefish.api.changes import changes_of
from needlefish.config import StoreConfig
from needlefish.model.log import TableState
from needlefish.services.merge import merge
from needlefish.services.rewrite import plan_compaction, rewrite_here
from needlefish.store import RetriedStore, open_store
from needlefish.table.changes import rows as changes_rows
from needlefish.table.evolve import Changes, evolve
from needlefish.table.snapshot import Snapshot
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.tables import build_table, scan_table
from needlefish.timeline import read_newest, read_state_at

SCHEMA = "id int64, host string, n int64, v string"
SMALL = {"chunkset_rows": 5, "granule_rows": 2}
Row = dict[str, Any]
Key = tuple[object, ...]

_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    key: Callable[[Mapping[str, Any]], Key] = lambda row: (row["id"],)
    options: Mapping[str, Any]


KINDS = {
    "plain": Kind(options={}),
    "by column": Kind(options={"partition_by": "host"}, key=lambda row: (row["id"], row["host"])),
    "global": Kind(options={"partition_by": "host", "properties": SMALL | {"global_keys": True}}),
}

ROWS = st.lists(
    st.fixed_dictionaries(
        {"id": st.integers(0, 9), "host": st.sampled_from(["a", "b", None]), "n": st.one_of(st.none(), st.integers(0, 3))}
    ),
    max_size=9,
)
# What is done, and whether the writer has seen what came just before.
STEPS = st.lists(
    st.tuples(st.sampled_from(["upsert", "ordered", "delete", "merge", "evolve", "rewrite"]), ROWS, st.booleans()), min_size=1, max_size=7
)


@dataclass
class Writer:
    """Does steps, and knows the versions with what their writers counted."""

    store: RetriedStore
    states: list[TableState]

    def take(self, step: str, rows: Sequence[Row], stale: bool) -> tuple[int, Counter[str]] | None:
        newest = read_newest(self.store)
        same = [state for state in [*self.states, newest] if state.definition == newest.definition]
        base = same[-3:][0] if stale else newest
        if step == "merge":
            merge(self.store, newest)
            return None
        if step == "evolve":
            evolve(self.store, newest, Changes(add={f"extra_{newest.version}": "int32"}))
            return None
        if step == "rewrite":
            rewrite(self.store, newest)
            return None
        if step == "delete":
            state, deleted = delete_table(self.store, base, [{"id": row["id"], "host": row["host"]} for row in rows])
            return state.version, Counter(delete=deleted.deleted)
        named = [row | {"v": f"{step} {newest.version}"} for row in rows]
        state, done = upsert_table(self.store, base, named, order_by="n" if step == "ordered" else None)
        return state.version, Counter(insert=done.inserted, update=done.replaced)


def rewrite(store: RetriedStore, state: TableState) -> None:
    """The same rows in other files."""
    plan = plan_compaction(Snapshot(store=store, state=state), where="id is not null")
    if plan is not None:
        rewrite_here(store, state, plan)


def rows_at(store: RetriedStore, state: TableState, kind: Kind) -> dict[Key, Row]:
    found = scan_table(store, state)[0].to_pylist()
    by_key = {kind.key(row): row for row in found}
    assert len(by_key) == len(found)
    return by_key


def replayed(before: Mapping[Key, Row], changes: Sequence[Row], kind: Kind, columns: Sequence[str]) -> dict[Key, Row]:
    """As a consumer would: in the order of versions, what went before what came."""
    rows = {key: {name: row.get(name) for name in columns} for key, row in before.items()}
    for change in sorted(changes, key=lambda one: (one["_version"], one["_change"] not in ("delete", "update_before"))):
        row = {name: change[name] for name in columns}
        if change["_change"] in ("delete", "update_before"):
            assert rows.pop(kind.key(row)) == row
        else:
            # With the rows that updates replaced taken out first, nothing is ever in the way.
            assert kind.key(row) not in rows
            rows[kind.key(row)] = row
    return rows


@pytest.mark.parametrize("name", KINDS)
@given(steps=STEPS, first=ROWS, group=st.sampled_from([2, 500_000]))
@settings(max_examples=25)
def test_changes_lead_from_every_version_to_every_later_one(name: str, steps: list[Any], first: list[Row], group: int) -> None:
    kind = KINDS[name]
    store = open_store(StoreConfig(uri=f"memory://changes-{next(_numbers)}"))
    created = build_table(store, SCHEMA, "id", **({"properties": SMALL} | dict(kind.options)))
    writer = Writer(store, [created])
    counted: dict[int, Counter[str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes_rows, "MOST_ROWS", group)
        for step in [("upsert", first, False), *steps]:
            done = writer.take(*step)
            counted |= {} if done is None or not +done[1] else {done[0]: +done[1]}
            writer.states.append(read_newest(store))
        check(store, kind, counted, created)


def check(store: RetriedStore, kind: Kind, counted: Mapping[int, Counter[str]], created: TableState) -> None:
    newest = read_newest(store)
    states = [read_state_at(store, version, newest) for version in range(created.version, newest.version + 1)]
    rows = {state.version: rows_at(store, state, kind) for state in states}
    for base in states:
        for state in states[states.index(base) :]:
            found = changes_of(store, newest, base.version, state.version, before=True).to_pylist()
            columns = state.definition.schema.names
            assert replayed(rows[base.version], found, kind, columns) == rows[state.version]
    everything = changes_of(store, newest, None, None, before=False).to_pylist()
    by_version: dict[int, Counter[str]] = {}
    for change in everything:
        by_version.setdefault(int(str(change["_version"])), Counter())[str(change["_change"])] += 1
    assert by_version == counted
