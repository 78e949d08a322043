"""Compactions and clusterings change files and never a row: in every kind of table, in old versions, and in what is found."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.model.schema import schema_from_text
from needlefish.runtime import SYSTEM
from needlefish.services.adopt import commit_adoption, list_files
from needlefish.services.adopt.task import adopted
from needlefish.services.rewrite import RewritePlan, plan_clustering, plan_compaction, rewrite_here
from needlefish.services.rewrite.picks import Selection
from needlefish.services.shares import EntryRuns
from needlefish.store import RetriedStore, open_store
from needlefish.table.create import define_table
from needlefish.table.evolve import Changes, evolve
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.tables import append_rows, build_table, find_table, scan_table
from needlefish.timeline import read_newest, read_state_at

SCHEMA = "id string, host string, n int32, at timestamp, x double"
SMALL = {"granule_rows": 5, "chunkset_rows": 50}
DAY = datetime(2026, 11, 1, tzinfo=UTC)
Row = dict[str, Any]

_numbers = count()


@pytest.fixture
def store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://rewrite-{next(_numbers)}"))


def row(number: int, **more: Any) -> Row:
    return {
        "id": f"k{number * 61 % 200:03}",
        "host": ["a", "b", None][number % 3],
        "n": number % 7 if number % 4 else None,
        "at": DAY + timedelta(hours=7 * (number % 9)),
        "x": float("nan") if number % 9 == 0 else number / 8,
    } | more


def grown(store: RetriedStore, **arguments: Any) -> TableState:
    """Four appends, an upsert that replaces rows of all of them, and a delete; 74 rows are left."""
    state = build_table(store, SCHEMA, **{"key": "id", "properties": SMALL, **arguments})
    for first in range(0, 80, 20):
        state = append_rows(store, state, [row(number) for number in range(first, first + 20)])
    state, _ = upsert_table(store, state, [row(number, x=float(-number)) for number in range(0, 80, 5)])
    return delete_table(store, state, [row(number) for number in range(0, 80, 15)])[0]


def of_plain(store: RetriedStore) -> TableState:
    return grown(store, indexes=None, bloom_columns="n")


def of_partitions(store: RetriedStore) -> TableState:
    return grown(store, partition_by="day(at)", indexes=[nf.PointIndex("n"), nf.PointIndex("x", granularity="file")])


def of_composite_keys(store: RetriedStore) -> TableState:
    return grown(store, key=["at", "id"], partition_by="bucket(id, 3)", indexes=[nf.PointIndex(["at", "id"], kind="cuckoo")])


def of_global_keys(store: RetriedStore) -> TableState:
    return grown(store, partition_by="host", properties=SMALL | {"global_keys": True}, indexes=None)


def of_evolved_columns(store: RetriedStore) -> TableState:
    """Rows of three schemas: a column dropped, one renamed and widened, one added, one added again under an old name."""
    state = grown(store, indexes=[nf.PointIndex("n")])
    state = evolve(store, state, Changes(drop=["x"], rename={"n": "count"}, widen={"n": "int64"}, add={"note": "string"}))
    more = [row(number) for number in range(80, 100)]
    state = append_rows(store, state, [_renamed(found, note="second") for found in more])
    state = evolve(store, state, Changes(add={"x": "string"}, reorder=["note", "id"]))
    changed = [_renamed(row(number), note="third", x="text") for number in range(0, 95, 11)]
    return upsert_table(store, state, changed)[0]


def _renamed(found: Row, **more: Any) -> Row:
    return {name: value for name, value in found.items() if name not in ("n", "x")} | {"count": found["n"]} | more


def of_adopted_files(store: RetriedStore) -> TableState:
    """Files of other writers: rows in no order, a column in the path alone, and rows replaced since."""
    for number in range(8):
        rows = [row(at) for at in range(number, 80, 8)]
        sink = pa.BufferOutputStream()
        columns = {name: [found[name] for found in rows] for name in ("id", "n", "at", "x")}
        schema = pa.schema([("id", pa.string()), ("n", pa.int8()), ("at", pa.timestamp("us", tz="UTC")), ("x", pa.float32())])
        pq.write_table(pa.table(columns, schema=schema), sink, row_group_size=4)
        store.put(f"in/host={'ab'[number % 2]}/{number}.parquet", sink.getvalue().to_pybytes())
    schema = schema_from_text(SCHEMA)
    definition = define_table(schema, "id", "host", SMALL, indexes=[nf.PointIndex("n")], bloom_columns="n")
    runs, infos = EntryRuns(definition, store, SYSTEM), []
    for file in list_files(store):
        entry = adopted(store, definition, file, SYSTEM)
        assert entry is not None
        infos.append(entry.info)
        runs.add(entry)
    state = commit_adoption(store, definition, infos, runs.finish())
    return upsert_table(store, state, [row(number, host="ab"[number % 8 % 2], x=-1.0) for number in range(0, 80, 6)])[0]


TABLES: dict[str, Callable[[RetriedStore], TableState]] = {
    name.removeprefix("of_").replace("_", " "): made for name, made in list(globals().items()) if name.startswith("of_")
}
ORDERS: dict[str, Callable[[Snapshot], RewritePlan | None]] = {
    "compaction": plan_compaction,
    "compaction by hand": lambda snapshot: plan_compaction(snapshot, where="id >= 'k020' AND id < 'k150'"),
    "clustering by key": plan_clustering,
    "clustering": lambda snapshot: plan_clustering(snapshot, ["at", "host"], target_bytes=2_000),
    "z-order": lambda snapshot: plan_clustering(snapshot, ["id", "at", "host"], zorder=True),
}


def texts(rows: pa.Table) -> list[str]:
    """Rows in an order of their own, as texts since NaN does not equal itself."""
    return sorted(map(str, rows.to_pylist()))


def everything(store: RetriedStore, state: TableState) -> list[str]:
    return texts(scan_table(store, state)[0])


def infos(store: RetriedStore, state: TableState) -> list[ChunksetInfo]:
    return list(plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets())


def answers(store: RetriedStore, state: TableState) -> list[list[str]]:
    """What finds and scans of many kinds say."""
    names = state.definition.schema.names
    number = "n" if "n" in names else "count"
    found = []
    for at in (0, 1, 5, 79, 500):
        wanted = row(at)
        for values in ({"id": wanted["id"]}, {"at": wanted["at"], "id": wanted["id"]}, {number: wanted["n"]}):
            if None not in values.values():
                rows, receipt = find_table(store, state, **values)
                assert not receipt.unreadable
                found.append(texts(rows))
    for where in ("id < 'k050'", "host IS NULL", f"{number} > 3 AND at < '2026-11-02'"):
        found.append(texts(scan_table(store, state, where=where)[0]))
    return found


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", TABLES)
def test_no_row_changes(store: RetriedStore, kind: str, order: str) -> None:
    before = TABLES[kind](store)
    said, rows = answers(store, before), everything(store, before)
    plan = ORDERS[order](Snapshot(store=store, state=before))
    assert plan is not None
    after = rewrite_here(store, before, plan)
    assert everything(store, after) == rows
    assert answers(store, after) == said
    assert read_newest(store) == after
    checked = verify_table(Snapshot(store=store, state=after), data=True)
    assert (checked.problems, checked.notes) == ((), ())
    assert after.totals.visible_rows == before.totals.visible_rows == len(rows)
    assert after.totals.skipped == before.totals.skipped - plan.hidden
    left = {info.path for info in infos(store, before)} - {info.path for info in infos(store, after)}
    assert len(left) == len(plan.inputs)
    old = read_state_at(store, before.version, after)
    assert everything(store, old) == rows, "older versions are as they were"
    assert len(find_table(store, old, id=row(1)["id"])[0]) == 1


@pytest.mark.parametrize("kind", TABLES)
def test_rows_change_after_it_as_before_it(store: RetriedStore, kind: str) -> None:
    """Upserts and deletes hide rows of clustered files too, and compactions fold them in again."""
    state = TABLES[kind](store)
    for order in ("z-order", "compaction", "clustering", "clustering by key"):
        plan = ORDERS[order](Snapshot(store=store, state=state))
        state = state if plan is None else rewrite_here(store, state, plan)
        rows = scan_table(store, state)[0].to_pylist()
        gone, changed = rows[::10], [found | {"at": found["at"]} for found in rows[5::10]]
        state, upserted = upsert_table(store, state, changed)
        assert upserted.replaced == len(changed)
        state, deleted = delete_table(store, state, gone)
        assert deleted.deleted == len(gone)
        assert state.totals.visible_rows == len(rows) - len(gone)
    assert verify_table(Snapshot(store=store, state=state), data=True).problems == ()
    plan = plan_compaction(Snapshot(store=store, state=state), where="id >= ''")
    assert plan is not None
    rows_before = everything(store, state)
    state = rewrite_here(store, state, plan)
    assert everything(store, state) == rows_before
    assert state.totals.skipped == 0


def test_compacted_chunksets_are_full_and_sorted_and_know_their_lineage(store: RetriedStore) -> None:
    before = of_plain(store)
    plan = plan_compaction(Snapshot(store=store, state=before))
    assert plan is not None
    after = rewrite_here(store, before, plan)
    made = sorted(infos(store, after), key=lambda info: info.first_key)
    assert (before.totals.files, len(made)) == (5, 2)
    assert max(info.rows for info in made) <= 50
    assert {(info.prev_max, info.is_sorted, info.schema_id) for info in made} == {(before.version, True, before.definition.schema.id)}


def test_clustered_chunksets_prune(store: RetriedStore) -> None:
    before = of_plain(store)
    plan = plan_clustering(Snapshot(store=store, state=before), ["at"])
    assert plan is not None
    after = rewrite_here(store, before, plan)
    where = "at >= '2026-11-02' AND at < '2026-11-03'"
    (rows, one), (same, other) = scan_table(store, before, where=where), scan_table(store, after, where=where)
    assert texts(rows) == texts(same)
    assert other.granules_read < one.granules_read / 2


def test_files_chosen_by_hand_twice_are_refused() -> None:
    with pytest.raises(nf.errors.InvalidError, match="choose the files one way"):
        Selection(files=["a"], where="n = 1")
