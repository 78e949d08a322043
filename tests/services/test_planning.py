"""Plans by policy leave alone what other plans are going to read; by hand they are refused, naming the plan."""

from itertools import count

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import ConflictError
from needlefish.services.planning import plan_rewrite
from needlefish.services.schedule import schedule
from needlefish.store import RetriedStore, open_store
from needlefish.table.snapshot import Snapshot
from needlefish.testing.tables import append_rows, build_table
from needlefish.timeline import read_newest

_numbers = count()


@pytest.fixture
def store() -> RetriedStore:
    """Two partitions of five small files each."""
    found = open_store(StoreConfig(uri=f"memory://planning-{next(_numbers)}"))
    state = build_table(found, "id string, host string", "id", partition_by="host")
    for first in range(0, 50, 10):
        state = append_rows(found, state, [{"id": f"k{number}", "host": "ab"[number % 2]} for number in range(first, first + 10)])
    return found


def planned(store: RetriedStore, kind: str = "compaction", **options: object) -> tuple[str, ...]:
    plan = plan_rewrite(Snapshot(store=store, state=read_newest(store)), kind, options)
    if plan is None:
        return ()
    schedule(store, read_newest(store), plan)
    return plan.inputs


@pytest.mark.parametrize("kind", ["compaction", "clustering"])
def test_by_policy_no_file_is_planned_twice(store: RetriedStore, kind: str) -> None:
    first = planned(store, partitions={"host": "a"})
    # One more small file, which belongs to nobody's plan.
    append_rows(store, read_newest(store), [{"id": "new", "host": "a"}])
    second = planned(store, kind, **({"by": ["host"]} if kind == "clustering" else {}))
    assert (len(first), len(second)) == (5, 5 if kind == "compaction" else 6)
    assert not set(first) & set(second)
    assert planned(store, kind, **({"by": ["host"]} if kind == "clustering" else {})) == ()


def test_by_hand_the_other_plan_is_named(store: RetriedStore) -> None:
    planned(store)
    plan = read_newest(store).instants[0].id
    with pytest.raises(ConflictError, match=f"plan {plan} reads some of these files already; execute or cancel it first"):
        planned(store, partitions={"host": "b"})


def test_files_of_a_plan_do_not_fill_up_what_another_may_take(store: RetriedStore) -> None:
    """With room for one partition, the second plan takes the other."""
    state = read_newest(store)
    room = state.totals.bytes // 2 + 1
    first, second = planned(store, most_bytes=room), planned(store, most_bytes=room)
    assert (len(first), len(second)) == (5, 5)
    assert not set(first) & set(second)
