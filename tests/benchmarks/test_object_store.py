"""The distant S3: it counts what arrives, and what arrives is what a find's receipt says."""

from collections.abc import Iterator

import pytest
from benchmarks.answers import Ask
from benchmarks.objectstore import finds
from benchmarks.peers import OURS, Place
from benchmarks.peers.shared_files import shared_files, write_shared
from benchmarks.seats import InlineSeat
from benchmarks.slow_s3 import SlowS3, slow_s3
from benchmarks.workloads import WORKLOADS, Sizes, Workload


@pytest.fixture(scope="module")
def s3() -> Iterator[SlowS3]:
    with slow_s3() as running:
        yield running


@pytest.fixture
def workload() -> Workload:
    return WORKLOADS["requests"](Sizes(files=2, rows=100))


def place(s3: SlowS3, name: str) -> Place:
    root = f"s3://{s3.server.bucket}"
    return Place(shared=f"{root}/shared", own=f"{root}/{name}", options=s3.server.options)


def test_the_server_sees_the_requests_of_the_receipt(s3: SlowS3, workload: Workload) -> None:
    seat = InlineSeat(OURS, workload, place(s3, OURS))
    assert seat.ask(Ask(verb="load")).reason == ""
    assert seat.ask(Ask(verb="open")).reason == ""
    # The first fills the handle's caches, and the others cost the same.
    asks = [Ask(verb="find", argument=workload.present_keys(1))] * 3
    seat.ask(asks[0])
    before = s3.counts()
    found = seat.ask(asks[1])
    used = s3.counts().since(before)
    assert found.count == 1
    assert used.reads + used.writes == found.requests
    assert used.sent_bytes == found.read_bytes
    cost = finds(seat, s3, asks, 1)
    assert cost.requests == found.requests
    assert cost.dollars_per_million == pytest.approx(0.4 * used.reads + 5 * used.writes)


def test_peers_read_the_same_files_there(s3: SlowS3, workload: Workload) -> None:
    where = place(s3, "polars")
    write_shared(workload, where)
    assert len(shared_files(where)) == 2
    seat = InlineSeat("polars", workload, where)
    seat.ask(Ask(verb="open"))
    before = s3.counts()
    assert seat.ask(Ask(verb="find", argument=workload.present_keys(1))).count == 1
    assert s3.counts().since(before).reads > 0
