"""Level three: Bloom filters of whole files, fetched for the files that are left, a bounded number of bytes at a time."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from needlefish.errors import InvalidError
from needlefish.filters.probes import probe_key_hashes
from needlefish.filters.split_block import SplitBlockFilter
from needlefish.format.bloom_record import bloom_key
from needlefish.format.run import KEY
from needlefish.index import newest
from needlefish.table.file_columns import FileColumns
from needlefish.table.find.asked import many_encoded
from needlefish.table.find.receipt import LevelReceipt
from needlefish.table.find.search import Candidate, Search, charged
from needlefish.table.find.tolerant import TolerantReader
from needlefish.table.find.wanted import Wanted

# Filters fetched together: enough to make one request of many, little enough to forget about.
_MOST_BYTES = 32 * 1024 * 1024
_BITS_PER_ROW = 48


def pass_filters(search: Search, files: Iterable[Candidate]) -> Iterator[Candidate]:
    """Lets a file pass with the values its filter does not rule out; a file without a filter passes whole."""
    wanted, definition = search.wanted, search.snapshot.state.definition
    level = search.receipt.level("filters")
    field_id = None if wanted.is_key else wanted.fields[0].id
    if field_id is not None and (len(wanted.fields) > 1 or field_id not in definition.bloom_columns):
        yield from _unfiltered(level, files)
        return
    for group in _groups(files):
        found = _filters(search, group, field_id)
        for candidate in group:
            level.files_in += 1
            bitset = found.get(_key(candidate, field_id))
            level.unknown += bitset is None
            passing = candidate if bitset is None else _passing(search, candidate, SplitBlockFilter.from_bytes(bitset))
            if passing is not None:
                level.files_out += 1
                yield passing


def _unfiltered(level: LevelReceipt, files: Iterable[Candidate]) -> Iterator[Candidate]:
    """The table has no such filters: all files pass, and it costs nothing."""
    for candidate in files:
        level.files_in += 1
        level.files_out += 1
        yield candidate


def _key(candidate: Candidate, field_id: int | None) -> str:
    return bloom_key(candidate.info.partition, candidate.info.file_name, field_id)


def _groups(files: Iterable[Candidate]) -> Iterator[list[Candidate]]:
    group: list[Candidate] = []
    expected = 0
    for candidate in files:
        group.append(candidate)
        expected += candidate.info.rows * _BITS_PER_ROW // 8
        if expected >= _MOST_BYTES:
            yield group
            group, expected = [], 0
    if group:
        yield group


def _filters(search: Search, group: list[Candidate], field_id: int | None) -> dict[str, bytes]:
    readers = [TolerantReader(reader, search.complain) for reader in search.snapshot.runs("bloom_filters")]
    keys = [_key(candidate, field_id) for candidate in group]
    found: dict[str, bytes] = {}
    for reader in readers:
        search.receipt.level("filters").expect(reader.expected_of_get(keys))
    for records in charged(search, search.receipt.level("filters"), newest.get(search.snapshot.store, readers, keys)):
        # A filter of a kind that is not known rules nothing out.
        known = records.filter(pc.equal(records["type"], "SPLIT_BLOCK"))
        found.update(zip(known[KEY].to_pylist(), known["filter"].to_pylist(), strict=True))
    return found


def _passing(search: Search, candidate: Candidate, bloom: SplitBlockFilter) -> Candidate | None:
    """The values that may be there, hashed as the file's own schema would have stored them."""
    columns = FileColumns(definition=search.snapshot.state.definition, info=candidate.info)
    stored = tuple(columns.stored(field) for field in candidate.wanted.fields)
    if None in stored:
        return candidate
    types = tuple(field.arrow_type for field in stored if field is not None)
    passes = np.flatnonzero(_may_hold(bloom, candidate.wanted, types))
    if not len(passes):
        return None
    return candidate if len(passes) == len(candidate.wanted) else Candidate(info=candidate.info, wanted=candidate.wanted.chosen(passes))


def _may_hold(bloom: SplitBlockFilter, wanted: Wanted, types: tuple[pa.DataType, ...]) -> NDArray[np.bool_]:
    hashed = wanted.hashed(types)
    if hashed.valid is None:
        found = bloom.check(hashed.hashes)
    else:
        found = np.zeros(len(wanted), np.bool_)
        found[hashed.valid] = bloom.check(hashed.present())
    for place in many_encoded(wanted.arrays).tolist():
        found[place] = _may_hold_one(bloom, [array[place].as_py() for array in wanted.arrays], types)
    return found


def _may_hold_one(bloom: SplitBlockFilter, value: Sequence[object], types: tuple[pa.DataType, ...]) -> bool:
    if any(part != part for part in value):
        return True
    try:
        hashes = probe_key_hashes(value, [[kind] for kind in types])
    except InvalidError:
        # The file's narrower type cannot hold the value.
        return False
    return any(bloom.may_contain(hashed) for hashed in hashes)
