"""Indexes of a table that lives: built under writers, dropped, damaged, merged, and never the reason for a missing row."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from needlefish.api.describe import IndexDescription, describe
from needlefish.config import StoreConfig
from needlefish.errors import ConflictError
from needlefish.format.run import path_of
from needlefish.index.build import put_run
from needlefish.index.point_kinds import point_reader
from needlefish.index.run_reader import RunReader
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunRef, TableState
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.services.build_index import BuildPlan, IndexResult, build_here, build_index, drop_index
from needlefish.services.merge import commit_merges, merge, plan_merges, run_merge, tidy
from needlefish.store import RetriedStore, Store, open_store
from needlefish.table.evolve import Changes, evolve
from needlefish.table.find import FindReceipt
from needlefish.table.point.declare import PointIndex, define_index
from needlefish.table.snapshot import RunReaders, Snapshot
from needlefish.table.verify import verify_table
from needlefish.testing.damage import flip, truncate
from needlefish.testing.faulty_store import CrashPoint, crash_everywhere
from needlefish.testing.tables import append_rows, build_table, find_table
from needlefish.timeline import Log, Proposal, read_newest

SCHEMA = "id string, user int64, note string"
SMALL = {"granule_rows": 4, "chunkset_rows": 8}
KINDS = ("postings", "cuckoo")
Job = Callable[[BuildPlan, Sequence[ChunksetInfo]], Sequence[RunRef]]

_numbers = count()


def row(number: int) -> dict[str, Any]:
    return {"id": f"k{number * 7919 % 100_003:06}", "user": number, "note": f"n{number // 2}"}


def rows(first: int, end: int) -> list[dict[str, Any]]:
    return [row(number) for number in range(first, end)]


def fresh_store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://point-coverage-{next(_numbers)}"))


def built(store: Store, *indexes: PointIndex, commits: int = 2, each: int = 20) -> TableState:
    state = build_table(store, SCHEMA, "id", indexes=indexes or None, properties=SMALL)
    for number in range(commits):
        state = append_rows(store, state, rows(number * each, (number + 1) * each))
    return state


def declared(state: TableState, index: PointIndex) -> PointIndexDefinition:
    return define_index(index, state.definition.schema, state.definition.properties)


def local_job(store: Store, meanwhile: Callable[[], object] = lambda: None) -> Job:
    """What Spark does, in this process; `meanwhile` happens once the first files were read."""
    waiting = [meanwhile]

    def job(plan: BuildPlan, infos: Sequence[ChunksetInfo]) -> Sequence[RunRef]:
        runs = build_here(store)(plan, infos)
        if waiting:
            waiting.pop()()
        return runs

    return job


def indexed(
    store: Store, state: TableState, index: PointIndex, meanwhile: Callable[[], object] = lambda: None
) -> tuple[TableState, IndexResult]:
    return build_index(store, state, declared(state, index), local_job(store, meanwhile))


def rebuilt(store: Store, state: TableState, name: str, meanwhile: Callable[[], object] = lambda: None) -> TableState:
    index = next(found for found in state.definition.point_indexes if found.name == name)
    return build_index(store, state, index, local_job(store, meanwhile))[0]


def described(store: Store, state: TableState, name: str) -> IndexDescription:
    return next(found for found in describe(store.uri, state).point_indexes if found.name == name)


def found_users(store: Any, state: TableState, **values: Any) -> tuple[list[int], FindReceipt]:
    found, receipt = find_table(store, state, **values)
    return sorted(found["user"].to_pylist()), receipt


def check_all(store: Any, state: TableState, end: int, columns: Sequence[str] = ("id", "user", "note")) -> None:
    """Every row is found once by each of its values, and what is not there is not found."""
    readers = RunReaders()
    for column in columns:
        asked = [row(number)[column] for number in range(end + 2)]
        found, _ = find_table(store, state, readers=readers, **{column: asked})
        assert sorted(found["user"].to_pylist()) == list(range(end)), column
        for number in (0, end - 1, end + 40):
            single, _ = find_table(store, state, readers=readers, **{column: row(number)[column]})
            assert (number in single["user"].to_pylist()) == (number < end), (column, number)
    assert find_table(store, state, id="absent")[0].num_rows == 0


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_built_later_is_the_one_that_appends_would_have_made(kind: str) -> None:
    store, other = fresh_store(), fresh_store()
    before = built(store, commits=3)
    after, result = indexed(store, before, PointIndex("user", kind=kind))
    by_appends = built(other, PointIndex("id"), PointIndex("user", kind=kind), commits=3)
    assert (result.version, result.index, result.keys, result.files, result.uncovered) == (after.version, "user", 60, 9, 0)
    # The claim and the index.
    assert after.version == before.version + 2
    assert result.bits_per_key == 8 * result.bytes / 60
    for number in range(0, 70, 3):
        mine, theirs = found_users(store, after, user=number), found_users(other, by_appends, user=number)
        assert mine[0] == theirs[0] == ([number] if number < 60 else [])
        assert mine[1].index == f"{kind} 'user', 1 run"
        assert mine[1].granules_read == theirs[1].granules_read == (number < 60)
    check_all(store, after, 60)
    assert before.runs_of("index/user") == (), "the handle that stays behind knows no index"
    check_all(store, before, 60)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_come_while_an_index_is_built_are_in_it(kind: str) -> None:
    store = fresh_store()
    base = built(store)
    after, result = indexed(store, base, PointIndex("user", kind=kind), lambda: append_rows(store, base, rows(40, 60)))
    assert (result.keys, result.uncovered) == (60, 0)
    users, receipt = found_users(store, after, user=55)
    assert (users, receipt.level("index").unknown, receipt.index) == ([55], 0, f"{kind} 'user', 2 runs")
    check_all(store, after, 60)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_come_too_late_are_looked_for_without_the_index(kind: str) -> None:
    """Somebody commits in every round, the last one included."""
    store = fresh_store()
    base = built(store)
    end = 40

    def job(plan: BuildPlan, infos: Sequence[ChunksetInfo]) -> Sequence[RunRef]:
        nonlocal end
        runs = build_here(store)(plan, infos)
        append_rows(store, base, rows(end, end + 8))
        end += 8
        return runs

    after, result = build_index(store, base, declared(base, PointIndex("user", kind=kind)), job)
    assert (end, result.keys, result.uncovered) == (80, 72, 1)
    assert described(store, after, "user").uncovered_files == 1
    check_all(store, after, end)
    users, receipt = found_users(store, after, user=77)
    assert (users, receipt.level("index").unknown) == ([77], 1)
    covered = rebuilt(store, after, "user")
    assert described(store, covered, "user").uncovered_files == 0
    assert found_users(store, covered, user=77)[1].level("index").unknown == 0
    check_all(store, covered, end)


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_who_knew_of_no_index_names_what_it_wrote(kind: str) -> None:
    store = fresh_store()
    base = built(store)
    indexed(store, base, PointIndex("user", kind=kind))
    state = append_rows(store, base, rows(40, 60))
    assert described(store, state, "user").uncovered_files == 3
    users, receipt = found_users(store, state, user=47)
    assert (users, receipt.level("index").unknown, receipt.index) == ([47], 3, f"{kind} 'user', 1 run")
    check_all(store, state, 60)
    found = verify_table(Snapshot(store=store, state=state))
    assert not found.problems
    assert {(note.what, note.remedy) for note in found.notes} == {("not covered: index user", "rebuild 'index/user'")}
    covered = rebuilt(store, state, "user")
    assert (described(store, covered, "user").uncovered_files, described(store, covered, "user").runs) == (0, 1)
    assert not verify_table(Snapshot(store=store, state=covered)).notes
    check_all(store, covered, 60)


def test_what_a_late_writer_names_during_a_rebuild_is_found_once() -> None:
    """The rebuild covers it, so that it must no longer count as not covered."""
    store = fresh_store()
    base = built(store)
    state, _ = indexed(store, base, PointIndex("user"))
    state = rebuilt(store, state, "user", lambda: append_rows(store, base, rows(40, 60)))
    assert found_users(store, state, user=47)[0] == [47]
    check_all(store, state, 60)
    assert described(store, state, "user").uncovered_files == 0


def test_a_merge_during_a_rebuild_leaves_nothing_twice() -> None:
    store = fresh_store()
    state = built(store, commits=8, each=8)
    after = rebuilt(store, state, "id", lambda: merge(store, state))
    assert described(store, after, "id").keys == 64
    check_all(store, after, 64)


def test_a_writer_who_knew_a_dropped_index_commits_without_it() -> None:
    store = fresh_store()
    base = built(store, PointIndex("id"), PointIndex("user"))
    dropped = drop_index(store, base, "user")
    assert dropped.runs_of("index/user") == ()
    state = append_rows(store, base, rows(40, 60))
    assert [index.name for index in state.definition.point_indexes] == ["id"]
    assert (len(state.runs_of("index/id")), state.runs_of("index/user")) == (3, ())
    check_all(store, state, 60)
    assert found_users(store, state, user=47)[1].index.startswith("metadata")
    assert found_users(store, base, user=7)[1].index == "postings 'user', 2 runs", "older versions keep it"


def test_an_index_that_was_dropped_and_made_again_under_a_writer_is_whole() -> None:
    store = fresh_store()
    base = built(store, PointIndex("id"), PointIndex("user"))
    after, _ = indexed(store, drop_index(store, base, "user"), PointIndex("user"))
    state = append_rows(store, base, rows(40, 60))
    check_all(store, state, 60)
    drop_index(store, after, "user")
    indexed(store, read_newest(store), PointIndex("user", kind="cuckoo"))
    check_all(store, append_rows(store, state, rows(60, 70)), 70)


def test_the_second_of_two_that_make_an_index_of_one_name_is_told() -> None:
    store = fresh_store()
    base = built(store)

    def other(index: PointIndex) -> Callable[[], object]:
        return lambda: indexed(store, base, index)

    for mine, theirs in ((PointIndex("user"), PointIndex("user")), (PointIndex("user"), PointIndex("note", name="user"))):
        with pytest.raises(ConflictError, match="user"):
            indexed(store, base, mine, other(theirs))
        check_all(store, read_newest(store), 40)
        base = drop_index(store, read_newest(store), "user")


def test_an_index_that_is_dropped_while_it_is_made_anew_stays_dropped() -> None:
    store = fresh_store()
    state = built(store, PointIndex("id"), PointIndex("user"))
    with pytest.raises(ConflictError, match="dropped"):
        rebuilt(store, state, "user", lambda: drop_index(store, state, "user"))
    with pytest.raises(ConflictError, match="gone already"):
        drop_index(store, state, "user")
    check_all(store, read_newest(store), 40)


def test_columns_that_change_under_a_build_end_it() -> None:
    store = fresh_store()
    state = built(store)
    with pytest.raises(ConflictError, match="redefined"):
        indexed(store, state, PointIndex("user"), lambda: evolve(store, state, Changes(add={"extra": "string"})))


def test_columns_that_change_beside_an_index_leave_it_as_it_is() -> None:
    """Else an index that was dropped would come back without a run, and every find would believe it."""
    store = fresh_store()
    base = built(store, PointIndex("id"), PointIndex("user"))
    drop_index(store, base, "user")
    state = evolve(store, base, Changes(add={"extra": "string"}))
    assert [index.name for index in state.definition.point_indexes] == ["id"]
    check_all(store, state, 40)
    indexed(store, state, PointIndex("user"))
    state = evolve(store, state, Changes(add={"more": "string"}))
    assert [index.name for index in state.definition.point_indexes] == ["id", "user"]
    check_all(store, state, 40)


def test_two_writers_and_a_build_in_every_order() -> None:
    orders = ["abc", "acb", "bac", "bca", "cab", "cba"]
    for order in orders:
        store = fresh_store()
        base = built(store)
        steps: dict[str, Callable[[], object]] = {
            "a": lambda store=store, base=base: append_rows(store, base, rows(40, 50)),  # type: ignore[misc]
            "b": lambda store=store, base=base: append_rows(store, base, rows(50, 60)),  # type: ignore[misc]
            "c": lambda store=store, base=base: indexed(store, base, PointIndex("user")),  # type: ignore[misc]
        }
        for step in order:
            steps[step]()
        check_all(store, read_newest(store), 60)
        assert described(store, read_newest(store), "user").uncovered_files == 2 * (2 - order.index("c"))


DAMAGES: dict[str, Callable[[Store, RunRef], None]] = {
    "deleted": lambda store, run: store.delete([path_of(run)]),
    "emptied": lambda store, run: truncate(store, path_of(run), 0),
    "cut in half": lambda store, run: truncate(store, path_of(run), run.bytes // 2),
    "first byte": lambda store, run: flip(store, path_of(run), 0),
    "middle byte": lambda store, run: flip(store, path_of(run), run.bytes // 2),
    "trailer byte": lambda store, run: flip(store, path_of(run), run.bytes - run.header_bytes // 2),
    "every byte": lambda store, run: store.put(path_of(run), bytes(byte ^ 255 for byte in store.get(path_of(run)))),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", DAMAGES)
def test_a_damaged_index_costs_time_and_no_rows(kind: str, harm: str) -> None:
    store = fresh_store()
    state = built(store, PointIndex("id", kind=kind), PointIndex("user", kind=kind))
    run = state.runs_of("index/user")[0]
    DAMAGES[harm](store, run)
    check_all(store, state, 40)
    seen = {text.split(":")[0] for number in range(0, 50, 3) for text in found_users(store, state, user=number)[1].unreadable}
    assert seen <= {path_of(run)}
    if harm != "trailer byte" and not (kind == "cuckoo" and harm in ("first byte", "middle byte", "cut in half")):
        assert seen == {path_of(run)}
    found = verify_table(Snapshot(store=store, state=state))
    assert {(problem.object, problem.remedy) for problem in found.problems} == {(path_of(run), "rebuild 'index/user'")}
    assert len(tidy(store, state).runs_of("index/user")) == 2, "a damaged run is not merged away"
    repaired = rebuilt(store, state, "user")
    assert path_of(run) not in {path_of(left) for left in repaired.runs}
    found = verify_table(Snapshot(store=store, state=repaired))
    assert (found.problems, found.notes) == ((), ())
    users, receipt = found_users(store, repaired, user=33)
    assert (users, receipt.unreadable, receipt.index) == ([33], [], f"{kind} 'user', 1 run")
    check_all(store, repaired, 40)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unreadable_index_says_so_and_the_levels_answer(kind: str) -> None:
    store = fresh_store()
    state = built(store, PointIndex("id", kind=kind))
    run = state.runs_of("index/id")[1]
    store.delete([path_of(run)])
    users, receipt = found_users(store, state, id=row(3)["id"])
    assert users == [3]
    assert receipt.index.startswith("metadata")
    (text,) = receipt.unreadable
    assert text.startswith(path_of(run))
    assert receipt.level("files").files_in > 0


def removed(store: RetriedStore, state: TableState, run: RunRef) -> TableState:
    """A commit that takes every file of a `files` run out of the table."""
    records = pa.Table.from_batches(list(RunReader(run).scan(store)))
    gone = records.set_column(records.schema.get_field_index("is_deleted"), "is_deleted", pa.array([True] * records.num_rows))
    ref = put_run(store, "files", gone, SYSTEM)
    return Log(store, "test").append(state, lambda _: Proposal(action="append", runs_added=(ref,)))


@pytest.mark.parametrize("kind", KINDS)
def test_removed_chunksets_are_never_returned_and_a_merge_forgets_them(kind: str) -> None:
    store = fresh_store()
    base = built(store, PointIndex("user", kind=kind), commits=8, each=8)
    state = removed(store, base, base.runs_of("files")[-1])
    readers = RunReaders()
    assert find_table(store, base, readers=readers, user=3)[0].num_rows == 1
    rows_found, receipt = find_table(store, state, readers=readers, user=3)
    assert (rows_found.num_rows, receipt.level("index").files_out, receipt.level("data").files_in) == (0, 1, 0)
    assert found_users(store, state, user=[2, 9, 63])[0] == [9, 63]
    after = merge(store, state)
    (run,) = after.runs_of("index/user")
    assert run.point is not None
    rows_found, receipt = find_table(store, after, user=3)
    assert (rows_found.num_rows, receipt.level("index").files_out) == (0, 0)
    assert found_users(store, after, user=list(range(64)))[0] == list(range(8, 64))
    assert sum(len(point_reader(run).granules(store, [ordinal])) for ordinal in range(run.point.granules)) == run.point.granules


@pytest.mark.parametrize("kind", KINDS)
def test_forty_appends_leave_few_runs_and_the_same_answers(kind: str) -> None:
    store = fresh_store()
    indexes = [PointIndex("id", kind=kind), PointIndex("note", kind=kind)]
    state = build_table(store, SCHEMA, "id", indexes=indexes, properties=SMALL)
    most = 0
    for number in range(40):
        state = append_rows(store, state, rows(number * 4, number * 4 + 4))
        before = state
        state = tidy(store, state)
        most = max(most, len(state.runs_of("index/id")), len(state.runs_of("index/note")))
        for asked in (0, number * 4 + 3, number * 4 + 4):
            assert found_users(store, before, note=row(asked)["note"])[0] == found_users(store, state, note=row(asked)["note"])[0]
    assert most <= 13
    assert described(store, state, "id").keys == 160
    check_all(store, state, 160)


@pytest.mark.parametrize("kind", KINDS)
def test_a_finder_keeps_its_version_while_runs_are_merged_under_it(kind: str) -> None:
    store = fresh_store()
    state = built(store, PointIndex("user", kind=kind), commits=8, each=8)
    readers = RunReaders()
    assert find_table(store, state, readers=readers, user=5)[0].num_rows == 1
    after = merge(store, append_rows(store, state, rows(64, 72)))
    assert len(after.runs_of("index/user")) == 1
    rows_found, receipt = find_table(store, state, readers=readers, user=[5, 63, 70])
    assert (sorted(rows_found["user"].to_pylist()), receipt.unreadable, receipt.index) == ([5, 63], [], f"{kind} 'user', 8 runs")
    check_all(store, after, 72)


def test_an_append_during_a_merge_of_an_index_stays() -> None:
    store = fresh_store()
    state = built(store, PointIndex("user"), commits=8, each=8)
    done = [run_merge(store, state, plan) for plan in plan_merges(state)]
    append_rows(store, state, rows(64, 72))
    after = commit_merges(store, state, done)
    assert after is not None
    assert len(after.runs_of("index/user")) == 2
    check_all(store, after, 72)
    again = [run_merge(store, state, plan) for plan in plan_merges(state)]
    drop_index(store, after, "user")
    assert commit_merges(store, state, again) is None
    check_all(store, read_newest(store), 72)


def test_a_table_that_outgrows_its_index_gets_finer_runs() -> None:
    """Runs with fewer slots are coarser: merged with them, the finer ones would be no better."""
    store = fresh_store()
    state = build_table(store, SCHEMA, "id", indexes=[PointIndex("user", expected_keys=64)], properties=SMALL)
    slots: list[int] = []
    for number in range(40):
        state = tidy(store, append_rows(store, state, rows(number * 8, number * 8 + 8)))
        slots = [run.point.slots for run in state.runs_of("index/user") if run.point is not None]
        assert slots == sorted(slots, reverse=True), "never a fine run merged into a coarse one"
    assert min(slots) == 640
    assert max(slots) >= 4 * min(slots)
    assert len(slots) <= 32
    check_all(store, state, 320)


def copies_of(template: RetriedStore) -> Callable[[], Store]:
    def make() -> Store:
        fresh = fresh_store()
        for found in template.list():
            fresh.put(found.path, template.get(found.path))
        return fresh

    return make


def check_after(point: CrashPoint, ends: Sequence[int]) -> None:
    """Each committed row is found once by every value, nothing else is, and the next append works."""
    state = read_newest(point.store)
    end = state.totals.rows
    assert end in ends, f"{point}"
    check_found(point.store, state, end)
    check_found(point.store, append_rows(point.store, state, rows(end, end + 1)), end + 1)


def check_found(store: Any, state: TableState, end: int, columns: Sequence[str] = ("id", "user", "note")) -> None:
    readers = RunReaders()
    for column in columns:
        found, _ = find_table(store, state, readers=readers, **{column: [row(number)[column] for number in range(end + 2)]})
        assert sorted(found["user"].to_pylist()) == list(range(end)), column


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_call_of_an_append_loses_nothing(kind: str) -> None:
    template = fresh_store()
    built(template, PointIndex("id"), PointIndex("user", kind=kind), commits=1, each=8)
    points = 0
    for point in crash_everywhere(copies_of(template), lambda store: append_rows(store, read_newest(store), rows(8, 24))):
        points += 1
        check_after(point, (8, 24))
    assert points >= 2 * 8, "two files, three metadata runs, two index runs and an entry"


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_call_of_a_merge_loses_nothing(kind: str) -> None:
    template = fresh_store()
    built(template, PointIndex("user", kind=kind), commits=8, each=2)
    points = 0
    for point in crash_everywhere(copies_of(template), merge_users):
        points += 1
        check_found(point.store, read_newest(point.store), 16, ["user"])
        merge_users(point.store)
        after = read_newest(point.store)
        assert len(after.runs_of("index/user")) == 1
        check_found(point.store, after, 16, ["user"])
    assert points > 2 * 8


def merge_users(store: Store) -> None:
    """The index alone: merges of the other kinds have crash tests of their own."""
    state = read_newest(store)
    plans = [plan for plan in plan_merges(state) if plan.kind == "index/user"]
    if plans:
        commit_merges(store, state, [run_merge(store, state, plan) for plan in plans])


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_call_of_a_build_loses_nothing(kind: str) -> None:
    template = fresh_store()
    built(template, commits=2, each=8)
    points = 0

    def build(store: Store) -> None:
        state = read_newest(store)
        indexed(store, state, PointIndex("user", kind=kind), lambda: append_rows(store, state, rows(16, 24)))

    for point in crash_everywhere(copies_of(template), build):
        points += 1
        check_after(point, (16, 24))
        state = read_newest(point.store)
        if not state.runs_of("index/user"):
            state, _ = indexed(point.store, state, PointIndex("user", kind=kind))
            check_found(point.store, state, state.totals.rows)
    assert points > 20


def test_a_crash_at_any_call_of_a_drop_loses_nothing() -> None:
    template = fresh_store()
    built(template, PointIndex("user"), commits=2, each=8)
    points = 0
    for point in crash_everywhere(copies_of(template), lambda store: drop_index(store, read_newest(store), "user")):
        points += 1
        check_after(point, (16,))
    assert points >= 2
