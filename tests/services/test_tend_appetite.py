"""Compactions of a loop where writers are quick: smaller after each that a writer ended, larger again as they complete."""

from needlefish.model.chunkset import PartitionPath
from needlefish.services.rewrite import Group, RewritePlan
from needlefish.services.tend.appetite import Appetite


def group(name: str, files: int, *, visible: int) -> Group:
    keys = tuple(f"{name}{number}" for number in range(files))
    return Group(partition=PartitionPath(name), files=keys, rows=1_000, bytes=10_000, hidden=1_000 - visible)


def plan(*groups: Group) -> RewritePlan:
    return RewritePlan(format=1, action="compaction", base_version=1, groups=groups, target_bytes=1, target_rows=1)


PLAN = plan(group("a", 60, visible=900), group("b", 40, visible=10))


def test_all_is_taken_until_a_writer_was_first() -> None:
    appetite = Appetite()
    assert appetite.bite(PLAN) is None
    appetite.was_completed()
    assert appetite.bite(PLAN) is None


def test_files_with_few_rows_to_hide_come_first() -> None:
    appetite = Appetite()
    appetite.was_preempted(200)
    assert appetite.bite(PLAN) == [*PLAN.groups[1].files, *PLAN.groups[0].files[:10]]


def test_what_no_writer_can_touch_comes_alone_and_all_of_it() -> None:
    appetite = Appetite()
    appetite.was_preempted(40)
    gone = group("c", 30, visible=0)
    assert appetite.bite(plan(*PLAN.groups, gone)) == list(gone.files)
    # That it completed says nothing of the others.
    appetite.was_completed()
    assert len(appetite.bite(PLAN) or ()) == 10


def test_it_shrinks_to_a_few_files_and_grows_back() -> None:
    appetite = Appetite()
    sizes = []
    for _ in range(4):
        part = appetite.bite(PLAN)
        sizes.append(len(part or PLAN.inputs))
        appetite.was_preempted(sizes[-1])
    assert sizes == [100, 25, 8, 8]
    appetite.was_completed()
    assert len(appetite.bite(PLAN) or ()) == 16
    for _ in range(20):
        appetite.was_completed()
    assert appetite.bite(plan(group("a", 50_000, visible=1))) is None
