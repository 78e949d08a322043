"""Chunkset infos by `files` key: those that the handle has at hand, then the others from the runs."""

from collections.abc import Iterator, Sequence

from needlefish.format.files_record import decode_files
from needlefish.format.run import KEY
from needlefish.index import newest
from needlefish.model.chunkset import ChunksetInfo
from needlefish.table.find.search import Search, charged
from needlefish.table.snapshot import GONE, Gone


def infos_of(search: Search, keys: Sequence[str]) -> Iterator[tuple[str, ChunksetInfo]]:
    """The chunksets that are still part of the table, in the order of keys."""
    level = search.receipt.level("files")
    level.files_in += len(keys)
    known = {key: search.snapshot.infos.get(key) for key in sorted(keys)}
    found = _read(search, [key for key, info in known.items() if info is None])
    for key, info in known.items():
        there = found[key] if info is None else info
        if isinstance(there, ChunksetInfo):
            level.files_out += 1
            yield key, there


def _read(search: Search, keys: Sequence[str]) -> dict[str, ChunksetInfo | Gone]:
    """What the runs say of each, kept for the next find."""
    if not keys:
        return {}
    snapshot, level = search.snapshot, search.receipt.level("files")
    readers = snapshot.runs("files")
    for reader in readers:
        level.expect(reader.expected_of_get(keys))
    found: dict[str, ChunksetInfo | Gone] = dict.fromkeys(keys, GONE)
    for records in charged(search, level, newest.get(snapshot.store, readers, keys)):
        found.update(zip(records[KEY].to_pylist(), decode_files(records), strict=True))
    for key, info in found.items():
        snapshot.keep_info(key, info)
    return found
