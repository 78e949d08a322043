"""Appending and replaying: what is folded, who wins a race, what the log promises about times and numbers."""

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from needlefish.errors import AlreadyExistsError, ConflictError, CorruptError
from needlefish.format.log_entry import log_path
from needlefish.model.definition import TableDefinition
from needlefish.model.log import RunId, RunRef, TableState, Totals
from needlefish.runtime import Runtime
from needlefish.store import RetriedStore, Store
from needlefish.table.create import create_table, define_table
from needlefish.testing.fake_clock import FakeClock
from needlefish.timeline import Log, Proposal, catch_up, read_newest
from needlefish.timeline.replay import read_entries, read_entry

Append = Callable[..., TableState]


def _run(name: str) -> RunRef:
    return RunRef(id=RunId(name), kind="files", bytes=1, header_bytes=1, header_checksum="", records=1)


def test_a_state_is_the_fold_of_its_entries(store: RetriedStore, created: TableState) -> None:
    log = Log(store, "test")
    one = log.append(
        created, lambda _: Proposal(action="append", runs_added=(_run("a"), _run("b")), added=Totals(rows=3, files=2, bytes=10))
    )
    two = log.append(
        one,
        lambda _: Proposal(action="append", runs_added=(_run("c"),), runs_removed=(RunId("a"),), added=Totals(rows=1, files=1, bytes=5)),
    )

    assert (two.version, two.totals) == (2, Totals(rows=4, files=3, bytes=15))
    assert [(run.id, run.version) for run in two.runs] == [("b", 1), ("c", 2)]
    assert [run.id for run in two.runs_of("files")] == ["c", "b"]
    assert read_newest(store) == two
    assert catch_up(store, None) == catch_up(store, created) == two
    assert catch_up(store, None, until=1) == one
    assert two.definition == created.definition


def test_a_new_definition_replaces_the_old_one(store: RetriedStore, created: TableState) -> None:
    wider = replace(created.definition, properties=replace(created.definition.properties, granule_rows=7))
    after = Log(store, "test").append(created, lambda _: Proposal(action="append", definition=wider))
    assert after.definition == read_newest(store).definition == wider


def test_an_entry_that_cannot_be_folded_is_never_put(store: RetriedStore, created: TableState, append: Append) -> None:
    with pytest.raises(CorruptError, match="removes runs"):
        Log(store, "test").append(created, lambda _: Proposal(action="append", runs_removed=(RunId("nowhere"),)))
    assert read_entry(store, 1) is None
    assert append(store, created).version == 1


def test_a_refused_proposal_leaves_nothing(store: RetriedStore, created: TableState) -> None:
    def refuse(state: TableState | None) -> Proposal:
        raise ConflictError("no")

    with pytest.raises(ConflictError):
        Log(store, "test").append(created, refuse)
    assert read_newest(store) == created


def test_a_lone_append_costs_a_probe_a_put_and_the_hint(store: RetriedStore, created: TableState, append: Append) -> None:
    alone = store.apart()
    append(alone, created)
    usage = alone.meter.snapshot()
    # The probe behind the end, and a look at the end itself, which a clean may have removed.
    assert (usage.get.requests, usage.put_if_absent.requests, usage.put.requests, usage.requests) == (2, 1, 1, 4)


def test_the_loser_of_a_race_validates_again_on_what_came_first(store: RetriedStore, created: TableState, append: Append) -> None:
    seen: list[int] = []

    def propose(state: TableState | None) -> Proposal:
        assert state is not None
        seen.append(state.version)
        if len(seen) <= 2:
            # Another writer slips in between reading and putting.
            append(store, state)
        return Proposal(action="append", added=Totals(rows=10))

    clock = FakeClock()
    alone = store.apart()
    after = Log(alone, "test", Runtime(clock=clock)).append(created, propose)
    assert seen == [0, 1, 2]
    assert (after.version, after.totals.rows) == (3, 12)
    # A put and a get for each loss, and for each attempt a probe behind the end and a look at the end.
    usage = alone.meter.snapshot()
    assert (usage.put_if_absent.requests, usage.get.requests) == (3, 8)
    assert len(clock.naps) == 2


def test_pauses_grow_with_the_losses_and_with_the_time_an_attempt_takes(store: RetriedStore, created: TableState, append: Append) -> None:
    clock = FakeClock()
    losses = 0

    def propose(state: TableState | None) -> Proposal:
        nonlocal losses
        if losses < 3:
            losses += 1
            append(store, state)
            clock.advance(0.1)
        return Proposal(action="append")

    Log(store, "test", Runtime(clock=clock, chance=random.Random(1))).append(created, propose)
    assert [0.1 * n <= nap <= 0.2 * n + 1e-9 for n, nap in enumerate(clock.naps, 1)] == [True] * 3


def test_threads_that_race_all_get_in_once(store: RetriedStore, created: TableState, append: Append) -> None:
    def write(number: int) -> list[int]:
        state, versions = created, []
        for _ in range(10):
            state = append(store, state, Runtime())
            versions.append(state.version)
        return versions

    with ThreadPoolExecutor(8) as pool:
        told = [version for versions in pool.map(write, range(8)) for version in versions]
    assert sorted(told) == list(range(1, 81))
    newest = read_newest(store)
    assert (newest.version, newest.totals.rows, len(newest.runs)) == (80, 80, 80)
    assert len({entry.token for entry in read_entries(store, 0, 80)}) == 81


def test_of_several_creators_one_succeeds(store: RetriedStore, definition: TableDefinition) -> None:
    def create(number: int) -> int:
        try:
            create_table(store, replace(definition, table_id=str(number)))
            return 1
        except AlreadyExistsError:
            return 0

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(create, range(8))) == 1
    assert read_newest(store).version == 0


def test_times_never_run_backwards(store: RetriedStore, definition: TableDefinition, append: Append) -> None:
    state = create_table(store, definition, Runtime(clock=FakeClock(start_ms=5_000)))
    for now in (4_000, 9_000, 1_000, 1_000):
        state = append(store, state, Runtime(clock=FakeClock(start_ms=now)))
    assert [entry.timestamp_ms for entry in read_entries(store, 0, 4)] == [9_002, 9_001, 9_000, 5_001, 5_000]


def test_entries_name_their_writer_and_are_plain_json(store: RetriedStore, created: TableState) -> None:
    entry = json.loads(store.get(log_path(0)))["body"]
    assert (entry["action"], entry["version"], entry["format"]) == ("create", 0, 1)
    assert entry["writer"].startswith("needlefish ")


def test_readers_on_two_states_do_not_disturb_each_other(store: Store, created: TableState, append: Append) -> None:
    one = append(store, created)
    two = append(store, one)
    assert (created.version, one.version, two.version) == (0, 1, 2)
    assert len(one.runs) == 1


def test_define_table_draws_its_id_from_the_runtime(definition: TableDefinition) -> None:
    ids = {define_table(definition.schema, "id", (), {}, Runtime(chance=random.Random(7))).table_id for _ in range(2)}
    assert len(ids) == 1
