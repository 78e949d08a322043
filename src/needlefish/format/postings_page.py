"""Head and hot table of a postings page. Normative text: spec/postings.md.

Everything in a page is little-endian words of 64 bits: the head, the Elias-Fano words, and four words for each hot slot.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray
from pyroaring import BitMap

from needlefish.errors import CorruptError

Ints = NDArray[np.int64]

WORD_BYTES = 8
HOT_WORDS = 4
# A slot with more granules than this is kept out of its page, as a list of its own.
HOT_GRANULES = 256
# In a page whose entries take more bytes than this, so is every slot with more granules than its record has 16-bit words.
CROWDED_BYTES = 12 * 1024
CROWDING_GRANULES = 16

_HEAD = struct.Struct("<IHBx")
_HOT = struct.Struct("<QQQII")
_MAX_HOTS = 2**16 - 1


@dataclass(frozen=True, slots=True)
class PageHead:
    """Entries in the Elias-Fano words, slots in the hot table, and the lower bits of each entry."""

    entries: int
    hots: int
    low: int


@dataclass(frozen=True, slots=True)
class HotSlot:
    """Where the granules of a hot slot are listed, and how many they are."""

    slot: int
    offset: int
    checksum: int
    length: int
    granules: int

    def encode(self) -> bytes:
        return _HOT.pack(self.slot, self.offset, self.checksum, self.length, self.granules)


def head_words(entries: Ints, hots: Ints, lows: Ints) -> NDArray[np.uint64]:
    """The heads of many pages, one word each."""
    assert not len(hots) or hots.max() <= _MAX_HOTS
    return (entries | hots << 32 | lows << 48).view(np.uint64)


def decode_head_words(words: NDArray[np.uint64]) -> tuple[Ints, Ints, Ints]:
    """Entries, hot slots and lower bits of many pages."""
    heads = words.astype(np.int64)
    return heads & 0xFFFF_FFFF, heads >> 32 & 0xFFFF, heads >> 48 & 0xFF


def decode_head(page: bytes) -> PageHead:
    """Of bytes that fit their checksum."""
    return PageHead(*_HEAD.unpack_from(page))


def decode_hots(page: bytes, hots: int) -> list[HotSlot]:
    """The hot table: the last words of a page, in the order of slots."""
    return [HotSlot(*fields) for fields in _HOT.iter_unpack(page[len(page) - hots * _HOT.size :])]


def encode_hot_list(ordinals: Iterable[int], granules: int) -> bytes:
    """A Roaring bitmap; one that has more than half of all granules has all of them, and takes a few bytes."""
    listed = BitMap(ordinals)
    if 2 * len(listed) > granules:
        listed = BitMap(range(granules))
    listed.run_optimize()
    return bytes(listed.serialize())


def decode_hot_list(data: bytes, hot: HotSlot, path: str) -> BitMap:
    if len(data) != hot.length or xxhash.xxh64_intdigest(data) != hot.checksum:
        raise CorruptError(f"{path}: the granules of the hot slot {hot.slot} do not fit their checksum")
    return BitMap.deserialize(data)
