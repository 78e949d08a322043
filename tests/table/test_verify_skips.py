"""Skips that contradict the table although every checksum fits, damaged runs of skips, and keys that are visible twice."""

from typing import Any

import pytest
from pyroaring import BitMap

from needlefish.format.log_entry import log_path
from needlefish.format.run import run_path
from needlefish.format.skips_record import Skips, encode_skips, skips_in
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo, PartitionPath
from needlefish.model.log import Batch, RunRef, TableState, Totals
from needlefish.runtime import SYSTEM
from needlefish.store import RetriedStore
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify import Problem, verify_table, visible_check
from needlefish.testing.damage import RUN_DAMAGES
from needlefish.testing.tables import append_rows, build_table, skip_rows
from needlefish.timeline import Log, Proposal


def build(store: RetriedStore, **options: Any) -> TableState:
    rows = [{"id": number, "host": f"h{number % 2}"} for number in range(40)]
    properties = {"chunkset_rows": 10, "granule_rows": 4, **options.pop("properties", {})}
    return build_table(store, "id int64, host string", "id", rows, properties=properties, **options)


def infos(store: RetriedStore, state: TableState) -> list[ChunksetInfo]:
    return sorted(plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets(), key=lambda info: info.first_key)


def with_skips(store: RetriedStore, state: TableState, *skips: Skips, counted: int | None = None) -> tuple[TableState, RunRef]:
    run = put_run(store, "skips", encode_skips(skips), SYSTEM)
    added = Totals(skipped=sum(len(one.rows) for one in skips) if counted is None else counted)
    state = Log(store, "test").append(state, lambda _: Proposal(action="delete", runs_added=(run,), added=added))
    return state, run


def problems(store: RetriedStore, state: TableState, *, data: bool = True) -> list[Problem]:
    return list(verify_table(Snapshot(store=store, state=state), data=data).problems)


def test_a_sound_table_has_no_problems_and_counts_what_is_hidden(store: RetriedStore) -> None:
    state = skip_rows(store, build(store), lambda row: row["id"] % 3 == 0, rows=[{"id": 3, "host": "new"}])
    found = verify_table(Snapshot(store=store, state=state))
    assert (found.problems, found.notes, found.rows, found.skipped) == ((), (), 41, 14)


def test_skips_of_a_file_that_the_table_does_not_have(store: RetriedStore) -> None:
    stranger = Skips(partition=PartitionPath("."), file_name="stranger.parquet", rows=BitMap([1]))
    state, run = with_skips(store, build(store), stranger, counted=0)
    (found,) = problems(store, state)
    assert (found.object, found.what) == (run_path("skips", run.id), "hides rows of ./stranger.parquet, which the table does not have")


def test_rows_beyond_the_end_of_the_file(store: RetriedStore) -> None:
    state = build(store)
    info = infos(store, state)[0]
    state, run = with_skips(store, state, skips_in(info, [0, 10]))
    (found,) = problems(store, state)
    assert (found.object, found.what) == (run_path("skips", run.id), f"hides row 10 of {info.path}, which has 10")


def test_skips_that_are_older_than_their_file(store: RetriedStore) -> None:
    state = build(store)
    late = append_rows(store, append_rows(store, state, [{"id": 50, "host": "a"}]), [{"id": 60, "host": "a"}])
    info = infos(store, late)[-1]
    run = put_run(store, "skips", encode_skips([skips_in(info, [0])]), SYSTEM, version=1)
    state = Log(store, "test").append(late, lambda _: Proposal(action="delete", runs_added=(run,), added=Totals(skipped=1)))
    (found,) = problems(store, state)
    assert found.object == run_path("skips", run.id)
    assert "whose writer had read version 2 already: the run is of version 1" in found.what


def test_hidden_rows_that_the_log_counts_wrongly(store: RetriedStore) -> None:
    state = build(store)
    state, _ = with_skips(store, state, skips_in(infos(store, state)[0], [1, 2]), counted=1)
    (found,) = problems(store, state, data=False)
    assert found.object == log_path(2)
    assert "40 rows (1 hidden)" in found.what
    assert "40 rows (2 hidden)" in found.what


@pytest.mark.parametrize("damage", RUN_DAMAGES)
def test_a_damaged_run_is_named_with_what_can_be_done(store: RetriedStore, damage: str) -> None:
    state = skip_rows(store, build(store), lambda row: row["id"] < 5, rows=[{"id": 1, "host": "a"}])
    (run,) = state.runs_of("skips")
    RUN_DAMAGES[damage](store, run)
    found = problems(store, state)
    assert {problem.object for problem in found} == {run_path("skips", run.id)}, "and no key is called visible twice"
    assert {problem.remedy for problem in found} == {"restore the run from a copy: no other object says which rows are hidden"}


def test_a_key_that_is_visible_twice_is_found(store: RetriedStore) -> None:
    state = append_rows(store, build(store), [{"id": 7, "host": "again"}, {"id": 100, "host": "x"}])
    (found,) = problems(store, state)
    assert "the key {'id': 7} is visible here and in" in found.what
    assert found.object in {info.path for info in infos(store, state)}
    assert problems(store, state, data=False) == []
    healed = skip_rows(store, state, lambda row: row == {"id": 7, "host": "h1"})
    assert problems(store, healed) == []


@pytest.mark.parametrize(("is_global", "expected"), [(False, 0), (True, 1)])
def test_a_key_in_two_partitions_is_two_rows_unless_keys_are_global(store: RetriedStore, is_global: bool, expected: int) -> None:
    state = build(store, partition_by="host", properties={"global_keys": is_global})
    state = append_rows(store, state, [{"id": 7, "host": "h0"}])
    assert len(problems(store, state)) == expected


def test_a_large_place_is_looked_at_in_shares(store: RetriedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    state = append_rows(store, build(store), [{"id": number, "host": "again"} for number in (3, 13, 23)])
    assert len(problems(store, state)) == 1
    monkeypatch.setattr(visible_check, "_MOST_HASHES", 10)
    assert {problem.what.split("'id': ")[1].split("}")[0] for problem in problems(store, state)} <= {"3", "13", "23"}
    healed = skip_rows(store, state, lambda row: row["id"] in (3, 13, 23) and row["host"] != "again")
    assert problems(store, healed) == []


def test_a_log_that_compares_with_the_future_or_repeats_a_batch(store: RetriedStore) -> None:
    state = build(store)
    log = Log(store, "test")
    state = log.append(state, lambda _: Proposal(action="upsert", prev_max=2))
    for number in (5, 5):
        state = log.append(state, lambda _, number=number: Proposal(action="upsert", batch=Batch(application="etl", number=number)))
    found = problems(store, state)
    assert [(problem.object, problem.what) for problem in found] == [
        (log_path(2), "says that it was compared against version 2, which is not before it"),
        (log_path(4), "has batch 5 of 'etl', though 5 was there already"),
    ]
