"""One slot in one Elias-Fano page, without decoding the page: what a single probe does, in some ten microseconds."""

from dataclasses import dataclass

import numpy as np

_WORD_ENDS = np.arange(1, 1 << 12) * 64


@dataclass(frozen=True, slots=True)
class Page:
    """The bytes of a page, and where in them the lower and the upper parts begin."""

    data: bytes
    low: int
    low_at: int
    high_at: int
    high_words: int


def find_between(page: Page, first: int, end: int) -> list[int]:
    """The numbers of the page from `first` up to `end`, in order."""
    low = page.low
    upper, last = first >> low, (end - 1) >> low
    bit = _after_zeros(page, upper)
    found = []
    steps = _Steps(page.data, page.high_at, page.high_words * 64)
    while bit < steps.bits and upper <= last:
        if steps.at(bit):
            number = upper << low | _lower(page, bit - upper)
            if first <= number < end:
                found.append(number)
        else:
            upper += 1
        bit += 1
    return found


class _Steps:
    """Bits one after the other, taken from the page in pieces."""

    __slots__ = ("_data", "_end", "_piece", "_start", "_start_byte", "bits")

    def __init__(self, data: bytes, start_byte: int, bits: int) -> None:
        self._data, self._start_byte, self.bits = data, start_byte, bits
        self._piece = self._start = self._end = 0

    def at(self, bit: int) -> int:
        if not self._start <= bit < self._end:
            self._start = bit & ~7
            self._end = min(self._start + 128, self.bits)
            from_byte = self._start_byte + (self._start >> 3)
            self._piece = int.from_bytes(self._data[from_byte : self._start_byte + (self._end >> 3)], "little")
        return (self._piece >> (bit - self._start)) & 1


def _after_zeros(page: Page, zeros: int) -> int:
    """The bit behind so many zeros."""
    if not zeros:
        return 0
    words = np.frombuffer(page.data, "<u8", page.high_words, page.high_at)
    ones = np.bitwise_count(words).cumsum(dtype=np.int64)
    ends = _WORD_ENDS if len(ones) <= len(_WORD_ENDS) else np.arange(1, len(ones) + 1) * 64
    zeros_until = ends[: len(ones)] - ones
    word = int(zeros_until.searchsorted(zeros))
    if word == len(ones):
        return len(ones) * 64
    before = int(zeros_until[word - 1]) if word else 0
    return word * 64 + _after_zeros_of(~int(words[word]), zeros - before)


def _after_zeros_of(inverted: int, zeros: int) -> int:
    """The same in one word, whose zeros are ones here."""
    for _ in range(zeros - 1):
        inverted &= inverted - 1
    return (inverted & -inverted).bit_length()


def _lower(page: Page, place: int) -> int:
    if not page.low:
        return 0
    bit = place * page.low
    start = page.low_at + (bit >> 3)
    # At most 62 bits that begin within a byte.
    return (int.from_bytes(page.data[start : start + 9], "little") >> (bit & 7)) & ((1 << page.low) - 1)
