"""What is planned: which chunksets are worth it, how they are grouped, what is left for the next plan, and what a plan says on storage."""

import json
from itertools import count
from typing import Any

import pytest

from needlefish.config import StoreConfig
from needlefish.errors import CorruptError, InvalidError
from needlefish.format.metadata_key import file_key
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.services.rewrite import (
    CompactionPolicy,
    RewritePlan,
    decode_plan,
    encode_plan,
    plan_clustering,
    plan_compaction,
    rewrite_here,
)
from needlefish.store import RetriedStore, open_store
from needlefish.table.scan import ScanRequest, plan_scan
from needlefish.table.snapshot import Snapshot
from needlefish.testing.tables import append_rows, build_table, skip_rows

_numbers = count()


@pytest.fixture
def store() -> RetriedStore:
    return open_store(StoreConfig(uri=f"memory://rewrite-plan-{next(_numbers)}"))


def rows(first: int, end: int, host: str = "a") -> list[dict[str, Any]]:
    return [{"id": f"k{number:04}", "host": host, "n": number} for number in range(first, end)]


def table(store: RetriedStore, *commits: tuple[int, int], **arguments: Any) -> TableState:
    """One chunkset for each commit, of rows from one number to another; chunksets hold 100."""
    arguments = {"properties": {"granule_rows": 10, "chunkset_rows": 100}} | arguments
    state = build_table(store, "id string, host string, n int64", "id", **arguments)
    for first, end in commits:
        state = append_rows(store, state, rows(first, end))
    return state


def infos(store: RetriedStore, state: TableState) -> list[ChunksetInfo]:
    found = plan_scan(Snapshot(store=store, state=state), ScanRequest()).chunksets()
    return sorted(found, key=lambda info: info.first_key)


def key(info: ChunksetInfo) -> str:
    return file_key(info.partition, info.file_name)


def compaction(store: RetriedStore, state: TableState, **arguments: Any) -> RewritePlan | None:
    names = ("hidden_share", "small_share", "least_files", "most_bytes")
    policy = CompactionPolicy(**{name: arguments.pop(name) for name in names if name in arguments})
    return plan_compaction(Snapshot(store=store, state=state), policy, **arguments)


def sizes(plan: RewritePlan | None) -> list[tuple[int, int, int]]:
    """Files, rows and hidden rows of each group."""
    return [] if plan is None else [(len(group.files), group.rows, group.hidden) for group in plan.groups]


def test_full_chunksets_are_left_alone(store: RetriedStore) -> None:
    assert compaction(store, table(store, (0, 100), (100, 200), (200, 300), (300, 400), (400, 490))) is None


def test_four_small_chunksets_are_worth_it_and_three_are_not(store: RetriedStore) -> None:
    state = table(store, (0, 10), (10, 20), (20, 30))
    assert compaction(store, state) is None
    assert sizes(compaction(store, append_rows(store, state, rows(30, 40)))) == [(4, 40, 0)]
    assert sizes(compaction(store, state, least_files=2)) == [(3, 30, 0)]


def test_small_is_less_than_half_of_a_chunkset_in_rows_and_bytes(store: RetriedStore) -> None:
    state = table(store, (0, 49), (100, 149), (200, 249), (300, 349), (400, 450))
    assert sizes(compaction(store, state)) == [(2, 98, 0), (2, 98, 0)]
    assert compaction(store, state, small_share=0.49) is None


def test_chunksets_with_many_hidden_rows_are_worth_it_alone(store: RetriedStore) -> None:
    state = table(store, (0, 100), (100, 200))
    state = skip_rows(store, state, lambda row: str(row["id"]) < "k0009")
    assert compaction(store, state) is None
    state = skip_rows(store, state, lambda row: row["n"] == 9)
    assert sizes(compaction(store, state)) == [(1, 100, 10)]
    assert sizes(compaction(store, state, hidden_share=0.11)) == []


def test_what_is_hidden_whole_goes_without_output(store: RetriedStore) -> None:
    state = skip_rows(store, table(store, (0, 100), (100, 150), (200, 220)), lambda row: str(row["id"]) < "k0150")
    plan = compaction(store, state)
    assert sizes(plan) == [(2, 150, 150)]
    assert plan is not None
    after = rewrite_here(store, state, plan)
    assert [(info.rows, info.first_key) for info in infos(store, after)] == [(20, infos(store, state)[-1].first_key)]


def test_groups_are_neighbours_by_key_and_at_most_a_chunkset(store: RetriedStore) -> None:
    state = table(store, (200, 240), (0, 40), (120, 160), (40, 80), (160, 200), (80, 120))
    plan = compaction(store, state)
    assert plan is not None
    listed = infos(store, state)
    assert [group.files for group in plan.groups] == [tuple(map(key, listed[first : first + 2])) for first in (0, 2, 4)]
    after = rewrite_here(store, state, plan)
    assert [info.rows for info in infos(store, after)] == [80, 80, 80]
    assert compaction(store, after) is None, "a compaction leaves nothing that is worth another"


def test_partitions_are_not_mixed(store: RetriedStore) -> None:
    state = table(store, partition_by="host")
    for number in range(4):
        state = append_rows(store, state, [*rows(number * 10, number * 10 + 5), *rows(number * 10, number * 10 + 2, host="b")])
    plan = compaction(store, state)
    assert plan is not None
    assert {group.partition: group.rows for group in plan.groups} == {"host=a": 20, "host=b": 8}
    assert sizes(compaction(store, state, partitions={"host": "b"})) == [(4, 8, 0)]
    assert sizes(compaction(store, state, where="host = 'a' AND id >= 'k0010'")) == [(3, 15, 0)]
    one = plan.groups[0].files[0]
    assert [group.files for group in (compaction(store, state, files=[one, "gone"]) or plan).groups] == [(one,)]
    assert compaction(store, state, partitions={"host": "nobody"}) is None


def test_a_plan_is_bounded_and_the_next_takes_the_rest(store: RetriedStore) -> None:
    state = table(store, *((first, first + 40) for first in range(0, 320, 40)))
    everything = compaction(store, state)
    assert everything is not None
    assert sizes(everything) == [(2, 80, 0)] * 4
    seen = []
    for left in (6, 4, 2, 0):
        plan = compaction(store, state, most_bytes=1, least_files=2)
        assert plan is not None
        assert (len(plan.groups), plan.left_files) == (1, left), "one group always fits"
        assert plan.left_bytes == sum(info.bytes for info in infos(store, state) if info.rows == 40) - plan.bytes
        seen.append(plan.rows)
        state = rewrite_here(store, state, plan)
    assert sum(seen) == 320
    assert compaction(store, state, least_files=2) is None
    assert (everything.left_files, everything.left_bytes) == (0, 0)


def test_clustering_takes_what_is_not_clustered_that_way(store: RetriedStore) -> None:
    state = table(store, (0, 100), (100, 200))
    plan = plan_clustering(Snapshot(store=store, state=state), ["n"])
    assert plan is not None
    assert (sizes(plan), plan.order, plan.curve) == ([(2, 200, 0)], (3,), "linear")
    state = append_rows(store, rewrite_here(store, state, plan), rows(200, 210))
    again = plan_clustering(Snapshot(store=store, state=state), ["n"])
    assert sizes(again) == [(1, 10, 0)]
    assert sizes(plan_clustering(Snapshot(store=store, state=state), ["n"], where="id >= 'k0000'")) == [(3, 210, 0)]
    assert sizes(plan_clustering(Snapshot(store=store, state=state), ["n", "host"], zorder=True)) == [(3, 210, 0)]


def test_clustering_by_the_key_takes_what_shares_keys(store: RetriedStore) -> None:
    state = table(store, (0, 50), (100, 150), (50, 100))
    assert plan_clustering(Snapshot(store=store, state=state)) is None
    state = append_rows(store, state, [{"id": "k0020x", "host": "a", "n": 1}, {"id": "k0120x", "host": "a", "n": 2}])
    plan = plan_clustering(Snapshot(store=store, state=state))
    assert sizes(plan) == [(4, 152, 0)], "the new one shares keys with all"
    assert plan is not None
    assert plan.order == ()
    named = plan_clustering(Snapshot(store=store, state=state), ["id"])
    assert named == plan, "the key by its name is the key"


def test_clustering_is_bounded_too(store: RetriedStore) -> None:
    state = table(store, (0, 50), (100, 150), (50, 100))
    left = []
    while (plan := plan_clustering(Snapshot(store=store, state=state), ["n"], most_bytes=1)) is not None:
        left.append(plan.left_files)
        state = rewrite_here(store, state, plan)
    assert left == [2, 1, 0]


def test_clustered_files_are_compacted_among_themselves(store: RetriedStore) -> None:
    state = table(store, *((first, first + 10) for first in range(0, 80, 10)))
    chosen = [key(info) for info in infos(store, state)[:4]]
    for one in chosen:
        plan = plan_clustering(Snapshot(store=store, state=state), ["n"], files=[one])
        assert plan is not None
        state = rewrite_here(store, state, plan)
    plan = compaction(store, state)
    assert plan is not None
    assert sizes(plan) == [(4, 40, 0), (4, 40, 0)]
    after = infos(store, rewrite_here(store, state, plan))
    assert [(info.rows, info.order, info.is_sorted) for info in after] == [(40, (3,), False), (40, (), True)]


def test_a_plan_on_storage(store: RetriedStore) -> None:
    state = table(store, *((first, first + 10) for first in range(0, 80, 10)))
    plan = compaction(store, state)
    assert plan is not None
    data = encode_plan(plan)
    assert decode_plan(data, "plan") == plan
    assert "k00" not in json.dumps(json.loads(data)["body"]), "a plan has no value of a row"
    with pytest.raises(CorruptError, match=r"^plan: the checksum does not fit"):
        decode_plan(data.replace(b'"rows":80', b'"rows":81', 1), "plan")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"hidden_share": 0}, "hidden_share is 0; give a share above 0 and up to 1"),
        ({"small_share": 1.5}, "small_share is 1.5; give a share above 0 and up to 1"),
        ({"least_files": 1}, "least_files is 1; give a number of files from 2 up"),
        ({"most_bytes": 0}, "most_bytes is 0; give the bytes that one plan may read"),
        ({"files": ["x"], "where": "n > 1"}, "files is given together with partitions or where; choose the files one way"),
        ({"files": "x"}, "files is 'x'; give a list of keys of files"),
        ({"partitions": {"n": 1}}, "partitions names 'n'; the table is partitioned by nothing"),
        ({"where": "m > 1"}, "where names column 'm', which the table does not have"),
    ],
)
def test_wrong_arguments_of_a_compaction(store: RetriedStore, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        compaction(store, table(store, (0, 10)), **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"by": "n"}, "by is 'n'; give a list of column names"),
        ({"by": []}, r"by is \[\]; give a list of column names"),
        ({"by": ["m"]}, "by names column 'm', which the table does not have"),
        ({"by": ["n", "n"]}, "by names a column twice: n, n; name each once"),
        ({"by": ["n"], "zorder": True}, "by has 1 columns; zorder is for 2 to 8"),
        ({"zorder": True}, "by has 1 columns; zorder is for 2 to 8"),
        ({"by": ["n"], "target_bytes": 0}, "target_bytes is 0; give the bytes that a chunkset is to have"),
    ],
)
def test_wrong_arguments_of_a_clustering(store: RetriedStore, arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidError, match=words):
        plan_clustering(Snapshot(store=store, state=table(store, (0, 10))), **arguments)


def test_nested_columns_have_no_order(store: RetriedStore) -> None:
    state = build_table(store, "id string, tags list<string>", "id", [{"id": "a", "tags": ["x"]}])
    with pytest.raises(InvalidError, match="by names column 'tags' of type list<string>; nested values have no order"):
        plan_clustering(Snapshot(store=store, state=state), ["tags"])
