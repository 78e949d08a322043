"""What upserts and deletes leave in the log: batches, lineage, hidden rows, and proposals that find nothing left to do."""

import msgspec

from needlefish.format.log_entry import checkpoint_path, decode_state
from needlefish.model.log import Batch, LogEntry, TableState, Totals
from needlefish.store import RetriedStore
from needlefish.timeline import Log, Proposal, catch_up, read_newest
from needlefish.timeline.replay import read_entry


def batch(application: str, number: int) -> Batch:
    return Batch(application=application, number=number)


def committed(store: RetriedStore, state: TableState, *batches: Batch) -> TableState:
    for one in batches:
        state = Log(store, "test").append(state, lambda _, one=one: Proposal(action="upsert", batch=one))
    return state


def test_a_state_has_the_last_number_of_each_application(store: RetriedStore, created: TableState) -> None:
    state = committed(store, created, batch("etl", 3), batch("feed", 1), batch("etl", 7), batch("a", 0))
    assert state.batches == (batch("a", 0), batch("etl", 7), batch("feed", 1))
    assert (state.last_batch("etl"), state.last_batch("a"), state.last_batch("nobody")) == (7, 0, None)
    assert read_newest(store) == catch_up(store, None) == state


def test_an_older_number_never_lowers_what_is_known(store: RetriedStore, created: TableState) -> None:
    """Writers do not commit one; whoever folds such a log must still agree with everybody else."""
    assert committed(store, created, batch("etl", 7), batch("etl", 2)).batches == (batch("etl", 7),)


def test_hidden_rows_add_up_and_lineage_is_kept(store: RetriedStore, created: TableState) -> None:
    log = Log(store, "test")
    one = log.append(created, lambda _: Proposal(action="append", added=Totals(rows=10)))
    two = log.append(one, lambda _: Proposal(action="upsert", added=Totals(rows=2, skipped=3), prev_max=1))
    assert (two.totals, two.totals.visible_rows) == (Totals(rows=12, skipped=3), 9)
    entry = read_entry(store, 2)
    assert entry is not None
    assert (entry.skipped, entry.prev_max, entry.batch) == (3, 1, None)


def test_checkpoints_carry_batches(store: RetriedStore, created: TableState) -> None:
    interval = created.definition.properties.checkpoint_interval
    state = committed(store, created, *(batch("etl", number) for number in range(interval)))
    path = checkpoint_path(interval)
    assert decode_state(store.get(path), path) == state
    assert state.batches == (batch("etl", interval - 1),)


def test_nothing_is_put_where_nothing_is_proposed(store: RetriedStore, created: TableState) -> None:
    newest = committed(store, created, batch("etl", 1))
    apart = store.apart()
    seen: list[TableState | None] = []
    assert Log(apart, "test").append(created, seen.append) == newest
    assert seen == [newest], "it was decided on the newest state, not on the caller's"
    usage = apart.meter.snapshot()
    assert (usage.put.requests, usage.put_if_absent.requests) == (0, 0)
    assert read_newest(store) == newest


def test_entries_of_writers_that_knew_none_of_this_mean_the_defaults() -> None:
    old = {
        "format": 1,
        "version": 4,
        "token": "t",
        "timestamp_ms": 9,
        "action": "append",
        "writer": "w",
        "added": {"rows": 2, "files": 1, "bytes": 3},
    }
    entry = msgspec.json.decode(msgspec.json.encode(old), type=LogEntry)
    assert (entry.added, entry.skipped, entry.batch, entry.prev_max) == (Totals(rows=2, files=1, bytes=3), 0, None, None)
