"""From pages back to sorted pairs and hot slots."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from needlefish.errors import CorruptError
from needlefish.filters.postings import Pairs
from needlefish.filters.postings_pages import Pages, decode_pages, high_words, low_words
from needlefish.format.postings_page import WORD_BYTES, HotSlot, decode_head_words, decode_hots
from needlefish.index.postings.shape import Shape

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Decoded:
    """The pairs of some pages, and their hot slots in order."""

    pairs: Pairs
    hots: list[HotSlot]


def decoded(numbers: Sequence[int], pages: Sequence[bytes], shape: Shape, path: str) -> Decoded:
    """Pages in ascending order, each checked already."""
    used = [(number, page) for number, page in zip(numbers, pages, strict=True) if page]
    if not used:
        return Decoded(np.zeros(0, np.int64), [])
    words = np.frombuffer(b"".join(page for _, page in used), "<u8")
    sizes = np.array([len(page) // WORD_BYTES for _, page in used], np.int64)
    starts = np.cumsum(sizes) - sizes
    entries, hots, lows = decode_head_words(words[starts])
    layout = _layout(np.array([number for number, _ in used], np.int64), starts, entries, lows, shape)
    # Kernels do not look at bounds, so that a page must have the words that its head speaks of.
    fits = (layout.high_at + layout.high_words <= starts + sizes).all() and (lows < 63).all()
    pairs = decode_pages(words, layout) if fits else None
    if pairs is None:
        raise CorruptError(f"{path}: a page fits its checksum, but not its own head")
    return Decoded(pairs, [hot for place in np.flatnonzero(hots).tolist() for hot in decode_hots(used[place][1], int(hots[place]))])


def _layout(numbers: Ints, starts: Ints, entries: Ints, lows: Ints, shape: Shape) -> Pages:
    lower = low_words(entries, lows)
    return Pages(
        bounds=np.concatenate([np.zeros(1, np.int64), np.cumsum(entries)]),
        bases=numbers * shape.universe,
        lows=lows,
        low_at=starts + 1,
        high_at=starts + 1 + lower,
        high_words=high_words(entries, lows, shape.universe),
    )
