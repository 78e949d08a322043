"""Services through a handle: what they return, what they refuse, and what `plans` prints. No plan here is large enough for Spark."""

from typing import Any

import pytest

import needlefish as nf
from needlefish.config import StoreConfig
from needlefish.model.instant import InstantId
from needlefish.runtime import SYSTEM
from needlefish.services.clean import CleanResult
from needlefish.services.execute import ServiceResult
from needlefish.services.upkeep import MergeResult, RollbackResult
from needlefish.store import RetriedStore, open_store
from needlefish.testing.changes import delete_table, upsert_table
from needlefish.testing.tables import append_rows, build_table
from needlefish.timeline import read_newest
from needlefish.timeline.work import claimed


@pytest.fixture
def store(uri: str) -> RetriedStore:
    return open_store(StoreConfig(uri=uri))


@pytest.fixture
def table(store: RetriedStore) -> nf.Table:
    """100 rows in five small files, a fifth of them replaced."""
    state = build_table(store, "id string, n int64", "id", properties={"granule_rows": 5, "chunkset_rows": 40})
    for first in range(0, 100, 20):
        state = append_rows(store, state, [row(number, number) for number in range(first, first + 20)])
    upsert_table(store, state, [row(number, -1) for number in range(0, 100, 5)])
    return nf.Table.open(store.uri)


def row(number: int, n: int) -> dict[str, Any]:
    return {"id": f"k{number:03}", "n": n}


def test_schedule_execute_and_run(table: nf.Table) -> None:
    plan = table.schedule("compaction")
    assert isinstance(plan, str)
    assert table.schedule("compaction") is None, "all that is worth it is planned"
    done = table.execute(plan)
    assert (done.plan, done.files_before, done.folded, done.repeated) == (plan, 5, 20, False)
    again = table.execute(plan)
    assert (again.version, again.folded, again.repeated) == (done.version, 20, True)
    assert table.run("compaction") is None
    assert (table.describe().rows, table.describe().skipped) == (100, 0)


def test_every_service_runs(table: nf.Table) -> None:
    found = [table.run(kind, **options) for kind, options in SERVICES]
    assert [type(result) for result in found] == [ServiceResult, ServiceResult, MergeResult, RollbackResult, CleanResult]
    assert table.scan().count() == 100
    assert table.verify().ok


SERVICES: list[tuple[str, dict[str, Any]]] = [
    ("clustering", {"by": ["n"]}),
    ("compaction", {"where": "n < 0"}),
    ("merge", {}),
    ("rollback", {}),
    ("clean", {"retained_versions": 1, "retained_seconds": 0, "grace_seconds": 0}),
]

REFUSED = {
    "no service": (lambda table: table.run("vacuum"), "kind is 'vacuum'; the services are compaction, clustering, merge, rollback, clean"),
    "nothing to plan": (lambda table: table.schedule("clean"), r"plans are made for compaction and clustering \(clean needs no plan: run it\)"),
    "unknown to schedule": (lambda table: table.schedule("vacuum"), "kind is 'vacuum'; plans are made for compaction and clustering"),
    "option of another": (lambda table: table.schedule("compaction", by=["n"]), "compaction has the option 'by', which it does not know; it takes partitions"),
    "option of none": (lambda table: table.run("merge", partitions={}), "merge has the option 'partitions', which it does not know; it takes none"),
    "share": (lambda table: table.schedule("compaction", hidden_share=2), "hidden_share is 2; give a share"),
    "no column": (lambda table: table.schedule("clustering", by=["m"]), "by names column 'm'"),
    "no plan": (lambda table: table.execute(7), r"plan_id is 7; give the id that schedule\(\) returned"),
    "less than nothing": (lambda table: table.clean(retained_versions=0), "retained_versions is 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_named(table: nf.Table, name: str) -> None:
    call, words = REFUSED[name]
    version = table.version
    with pytest.raises(nf.InvalidError, match=words):
        call(table)
    assert table.refresh().version == version


def test_an_immutable_plan_refuses_writers_and_names_itself(store: RetriedStore, table: nf.Table) -> None:
    plan = table.schedule("compaction", cancellable=False)
    with pytest.raises(nf.ConflictError, match=f"plan {plan} is immutable and reads a file"):
        delete_table(store, read_newest(store), [{"id": "k001"}])
    with pytest.raises(nf.ConflictError, match=f"plan {plan} is immutable"):
        table.cancel(str(plan))
    assert table.cancel(str(plan), force=True).over
    delete_table(store, read_newest(store), [{"id": "k001"}])


def test_a_running_plan_is_asked_to_stop(store: RetriedStore, table: nf.Table) -> None:
    plan = InstantId(str(table.schedule("compaction")))
    with claimed(store, read_newest(store), plan, SYSTEM) as work:
        result = table.cancel(plan)
        assert not result.over
        (status,) = table.plans()
        assert (status.state, status.waits_for) == ("inflight", "its worker to stop")
        with pytest.raises(nf.FencedError, match="was cancelled"):
            work.check(read_newest(store))


def test_plans_print_as_a_table(store: RetriedStore, table: nf.Table) -> None:
    assert str(table.plans()) == "no plans: nothing waits and nobody works on the table"
    plan = InstantId(str(table.schedule("compaction")))
    titles, line = str(table.plans()).splitlines()
    assert titles.split() == ["id", "action", "state", "kind", "age", "files", "rows", "bytes", "waits", "for"]
    assert line.split()[:4] == [plan, "compaction", "requested", "cancellable"]
    with claimed(store, read_newest(store), plan, SYSTEM) as work:
        (status,) = table.plans()
        titles, line = str(table.plans()).splitlines()
        assert titles.split() == ["id", "action", "state", "kind", "epoch", "owner", "age", "heartbeat", "files", "rows", "bytes"]
        assert (status.owner, status.epoch, status.progress) == (work.claim.owner, 1, None)
    assert [status.id for status in table.plans(ended=20)][-1] == plan
