"""Elias-Fano pages: bits as specified, the same from both engines, and found again whole or slot by slot."""

import math

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needlefish.filters.postings_lookup import Page, find_between
from needlefish.filters.postings_pages import Pages, decode_pages, encode_pages, high_words, low_bits, low_words

per_engine = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@st.composite
def pages_of_numbers(draw: st.DrawFn) -> tuple[int, list[list[int]]]:
    universe = draw(st.integers(1, 500) | st.integers(1, 2**61))
    numbers = st.sets(st.integers(0, universe - 1), max_size=min(80, universe)).map(sorted)
    return universe, draw(st.lists(numbers, min_size=1, max_size=4))


def laid_out(universe: int, numbers: list[list[int]]) -> tuple[Pages, int]:
    """Pages without heads, one behind the other from word 3, all counted from 7."""
    entries = np.array([len(page) for page in numbers], np.int64)
    lows = low_bits(entries, universe)
    lower, upper = low_words(entries, lows), high_words(entries, lows, universe)
    ends = 3 + np.cumsum(lower + upper)
    pages = Pages(
        bounds=np.concatenate([[0], np.cumsum(entries)]).astype(np.int64),
        bases=np.full(len(numbers), 7, np.int64),
        lows=lows,
        low_at=ends - lower - upper,
        high_at=ends - upper,
        high_words=upper,
    )
    return pages, int(ends[-1])


def specified(universe: int, numbers: list[int]) -> int:
    """The words of one page as one whole number, from the text of the specification."""
    if not numbers:
        return 0
    low = (universe // len(numbers)).bit_length() - 1
    lower_bits = (len(numbers) * low + 63) // 64 * 64
    bits = 0
    for place, number in enumerate(numbers):
        bits |= (number & ((1 << low) - 1)) << (place * low)
        bits |= 1 << (lower_bits + (number >> low) + place)
    return bits


@given(drawn=pages_of_numbers())
@per_engine
def test_words_are_those_of_the_specification_and_come_back(engine: str, drawn: tuple[int, list[list[int]]]) -> None:
    universe, numbers = drawn
    pages, size = laid_out(universe, numbers)
    pairs = np.array([number + 7 for page in numbers for number in page], np.int64)
    words = np.zeros(size, np.uint64)
    encode_pages(pairs, pages, words)
    for page, start, end in zip(numbers, pages.low_at, pages.high_at + pages.high_words, strict=True):
        assert int.from_bytes(words[start:end].tobytes(), "little") == specified(universe, page)
    found = decode_pages(words, pages)
    assert found is not None
    assert np.array_equal(found, pairs)


@given(drawn=pages_of_numbers(), edges=st.tuples(st.floats(0, 1), st.floats(0, 1)))
@per_engine
def test_a_range_of_a_page_is_found_without_decoding_it(
    engine: str, drawn: tuple[int, list[list[int]]], edges: tuple[float, float]
) -> None:
    universe, numbers = drawn
    first, last = sorted(min(universe - 1, int(edge * universe)) for edge in edges)
    pages, size = laid_out(universe, numbers)
    words = np.zeros(size, np.uint64)
    encode_pages(np.array([number + 7 for page in numbers for number in page], np.int64), pages, words)
    for at, page in enumerate(numbers):
        if page:
            low_at, high_at = int(pages.low_at[at]) * 8, int(pages.high_at[at]) * 8
            opened = Page(words.tobytes(), int(pages.lows[at]), low_at, high_at, int(pages.high_words[at]))
            spans = [(first, last + 1), (page[0], page[0] + 1), (page[-1], page[-1] + 1), (0, 1), (universe - 1, universe)]
            for start, end in spans if last - first < 5000 * (universe // len(page)) else spans[1:]:
                assert find_between(opened, start, end) == [number for number in page if start <= number < end]


def test_a_page_that_has_other_pairs_than_it_says_is_seen(engine: str) -> None:
    pages, size = laid_out(1000, [[1, 5, 900]])
    words = np.zeros(size, np.uint64)
    encode_pages(np.array([8, 12, 907], np.int64), pages, words)
    high = int(pages.high_at[0])
    without_one = words.copy()
    without_one[high] &= without_one[high] - np.uint64(1)
    assert decode_pages(without_one, pages) is None
    with_one_more = words.copy()
    with_one_more[high] |= np.uint64(1 << 9)
    assert decode_pages(with_one_more, pages) is None


@given(universe=st.integers(1, 2**62), entries=st.integers(1, 2**20))
def test_lower_bits_are_exact_and_the_cost_is_bounded(universe: int, entries: int) -> None:
    entries = min(entries, universe)
    lows = low_bits(np.array([entries, 0], np.int64), universe)
    assert lows.tolist() == [(universe // entries).bit_length() - 1, 0]
    words = low_words(np.array([entries]), lows[:1]) + high_words(np.array([entries]), lows[:1], universe)
    # Both parts are rounded up to words, and the last step needs a bit.
    assert int(words[0]) * 64 <= entries * (math.log2(universe / entries) + 2) + 2 * 64 + 1
