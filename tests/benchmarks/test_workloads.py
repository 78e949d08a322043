"""What every workload promises: the same rows each time, keys that are unique, batches that hit what they say."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from benchmarks.workloads import WORKLOADS, Sizes, Workload


@pytest.fixture(params=sorted(WORKLOADS))
def workload(request: pytest.FixtureRequest) -> Workload:
    return WORKLOADS[request.param](Sizes(files=5, rows=200))


def keys_of(workload: Workload, rows: pa.Table) -> set[tuple[object, ...]]:
    return {tuple(row[name] for name in workload.key) for row in rows.select(list(workload.key)).to_pylist()}


def loaded(workload: Workload) -> pa.Table:
    return pa.concat_tables([workload.file(number) for number in range(workload.sizes.files)])


def test_a_file_is_the_same_each_time(workload: Workload) -> None:
    assert workload.file(3) == type(workload)(workload.sizes).file(3)
    assert workload.file(3) != workload.file(2)
    assert workload.file(3).schema == workload.schema


def test_keys_are_unique(workload: Workload) -> None:
    assert len(keys_of(workload, loaded(workload))) == workload.sizes.total


def test_present_keys_are_there_and_absent_ones_are_not(workload: Workload) -> None:
    there = keys_of(workload, loaded(workload))
    present, absent = workload.present_keys(30), workload.absent_keys(30)
    assert len(set(present)) == len(set(absent)) == 30
    assert set(present) <= there
    assert not set(absent) & there


def test_a_batch_replaces_four_rows_for_each_new_one(workload: Workload) -> None:
    there = keys_of(workload, loaded(workload))
    first, second = (keys_of(workload, workload.batch(0.1, salt)) for salt in (0, 1))
    assert len(first) == 125
    assert len(first & there) == 100
    # New rows of one batch are new to the next as well, and nobody looks for them as absent.
    assert not (first - there) & (second - there)
    assert not (first - there) & set(workload.absent_keys(100))


def test_updates_are_scattered_over_all_files(workload: Workload) -> None:
    batch = keys_of(workload, workload.batch(0.1, 0))
    assert [len(batch & keys_of(workload, workload.keys(number))) for number in range(5)] == [20] * 5


def test_an_update_stays_in_its_partition(workload: Workload) -> None:
    if not workload.partition_by:
        pytest.skip("no partitions")
    columns = [*workload.partition_by, *workload.key]
    there = {tuple(row.values()) for row in loaded(workload).select(columns).to_pylist()}
    updated = {tuple(row.values()) for row in workload.batch(0.1, 0).select(columns).to_pylist()}
    assert len(updated & there) == 100


def test_sought_values_are_found(workload: Workload) -> None:
    rows = loaded(workload)
    found = pc.is_in(rows[workload.column], pa.array(workload.sought_values(20), pa.int64()))
    assert pc.sum(found).as_py() > 0


def test_hot_values_have_many_rows() -> None:
    workload = WORKLOADS["events"](Sizes(files=5, rows=2_000))
    rows = loaded(workload)
    hot = pc.sum(pc.equal(rows["user_id"], workload.hot_values(1)[0])).as_py()
    assert hot > 20 * len(rows) / workload.users
