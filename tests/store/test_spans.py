"""Joining ranges changes how bytes are asked for, never which bytes arrive."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from needlefish.store.base import ByteRange
from needlefish.store.spans import plan, read_spans

_DATA = bytes(range(200))
_SPANS = st.lists(st.builds(ByteRange, st.integers(0, 230), st.integers(0, 60)), max_size=12)


@given(spans=_SPANS, gap=st.integers(0, 50))
def test_every_span_gets_its_bytes(spans: list[ByteRange], gap: int) -> None:
    found = read_spans(spans, gap, lambda requests: [_DATA[request.start : request.end] for request in requests])
    assert found == [_DATA[span.start : span.end] for span in spans]


@given(spans=_SPANS, gap=st.integers(0, 50))
def test_requests_are_in_order_and_further_apart_than_the_gap(spans: list[ByteRange], gap: int) -> None:
    requests = plan(spans, gap).requests
    assert all(right.start - left.end > gap for left, right in pairwise(requests))
    assert all(request.length > 0 for request in requests)


def test_near_spans_become_one_request() -> None:
    assert plan([ByteRange(90, 10), ByteRange(0, 10), ByteRange(15, 5)], 5).requests == [ByteRange(0, 20), ByteRange(90, 10)]


def test_empty_spans_ask_for_nothing() -> None:
    assert plan([ByteRange(5, 0), ByteRange(9, 0)], 100).requests == []
