"""A reader made from spec/postings.md alone, in Python's whole numbers, finds in a file what was put into it."""

from itertools import count

import numpy as np
import pytest
import xxhash
from pyroaring import BitMap

from needlefish.config import StoreConfig
from needlefish.format.granule_table import GranuleRef
from needlefish.format.metadata_key import file_key
from needlefish.format.run import path_of
from needlefish.index.postings import PostingsBuilder
from needlefish.model.log import RunRef
from needlefish.model.point_index import PointIndexDefinition
from needlefish.runtime import SYSTEM
from needlefish.store import open_store

_numbers = count()


def number(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "little")


def pages_of(data: bytes, ref: RunRef) -> list[bytes]:
    assert ref.point is not None
    directory = ref.bytes - ref.header_bytes - 32 * ref.point.granules - 24 * (ref.point.end - ref.point.first)
    pages = []
    for page in range(ref.point.first, ref.point.end):
        record = data[directory + 24 * (page - ref.point.first) :][:24]
        assert xxhash.xxh64_intdigest(record[:20], page) % 2**32 == number(record, 20, 4)
        start = number(record, 0, 8)
        pages.append(data[start : start + number(record, 8, 4)])
        assert xxhash.xxh64_intdigest(pages[-1]) == number(record, 12, 8)
    return pages


def entries_of(page: bytes, universe: int) -> list[int]:
    entries, low = number(page, 0, 4), page[6]
    assert low == ((universe // entries).bit_length() - 1 if entries else 0)
    lower = number(page, 8, -(-entries * low // 64) * 8)
    upper_at = 8 + -(-entries * low // 64) * 8
    upper = number(page, upper_at, (entries + (universe >> low) + 64) // 64 * 8 if entries else 0)
    ones = [bit for bit in range(upper.bit_length()) if upper >> bit & 1]
    assert len(ones) == entries
    return [(bit - at) << low | (lower >> (at * low)) % (1 << low) for at, bit in enumerate(ones)]


def hot_pairs(data: bytes, page: bytes) -> list[tuple[int, int]]:
    pairs = []
    hots = number(page, 4, 2)
    for at in range(len(page) - 32 * hots, len(page), 32):
        listed = data[number(page, at + 8, 8) :][: number(page, at + 24, 4)]
        assert xxhash.xxh64_intdigest(listed) == number(page, at + 16, 8)
        ordinals = list(BitMap.deserialize(listed))
        assert len(ordinals) == number(page, at + 28, 4)
        pairs += [(number(page, at, 8), ordinal) for ordinal in ordinals]
    return pairs


@pytest.mark.parametrize(("granules", "keys", "false_reads"), [(1, 3, 0.1), (20, 500, 0.1), (700, 20, 0.01), (300, 40, 3.0), (2, 0, 0.1)])
def test_a_reader_made_from_the_text_finds_what_was_put(granules: int, keys: int, false_reads: float) -> None:
    store = open_store(StoreConfig(uri=f"memory://postings-spec-{next(_numbers)}"))
    rng = np.random.default_rng(granules)
    hashes = [
        np.append(rng.integers(0, 2**64, keys, np.uint64), np.full(keys and ordinal % 2, 99, np.uint64)) for ordinal in range(granules)
    ]
    index = PointIndexDefinition(name="a", fields=(1,), expected_keys=max(1, granules * keys), false_reads=false_reads)
    builder = PostingsBuilder(index, granules * keys)
    for ordinal, part in enumerate(hashes):
        builder.add(GranuleRef(file_key("p", "file"), ordinal), part)
    ref = builder.finish(store, SYSTEM)
    assert ref.point is not None
    slots, universe = ref.point.slots, ref.point.page_slots * granules
    data = store.get(path_of(ref))
    found = []
    for page, content in enumerate(pages_of(data, ref)):
        if content:
            found += [divmod(page * universe + entry, granules) for entry in entries_of(content, universe)]
            found += hot_pairs(data, content)
    wanted = {(int(hashed) * slots >> 64, ordinal) for ordinal, part in enumerate(hashes) for hashed in part}
    assert len(found) == len(set(found)) == ref.records
    assert set(found) == wanted
