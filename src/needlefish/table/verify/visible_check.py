"""No key is visible twice: suspected by the hashes of visible keys over all files of a place, decided by the keys themselves.

A place is a partition, or the whole table where keys are global. Memory holds eight bytes for each visible key, or for a
share of them: a large place is looked at several times, for the hashes of another share each time.
"""

from collections.abc import Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from needlefish.format.files_record import decode_files
from needlefish.format.metadata_key import hash64_part
from needlefish.index import newest
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import TableState
from needlefish.table.key_repeats import key_hashes, keys_with, overlapping
from needlefish.table.skips import with_hidden
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify.report import DAMAGE, Findings
from needlefish.table.visible_rows import visible_rows

# Hashes held at once: 128 MB.
_MOST_HASHES = 16 * 1024 * 1024
_REMEDY = "upsert the row anew: that hides all that have its key"


def check_visible_keys(snapshot: Snapshot) -> Findings:
    """One problem for each place with repeated keys. What cannot be read has been named already; nothing is said of its place."""
    found = Findings()
    try:
        for place in _places(snapshot):
            _check_place(snapshot, place, found)
    except DAMAGE:
        return found
    return found


def _check_place(snapshot: Snapshot, infos: list[ChunksetInfo], found: Findings) -> None:
    try:
        for path, text in _repeats(snapshot, infos):
            found.problem(path, text, _REMEDY)
    except DAMAGE:
        return


def _places(snapshot: Snapshot) -> Iterator[list[ChunksetInfo]]:
    """Files that may share a key: of one partition, and with overlapping ranges. Those of a partition are neighbours."""
    infos = (info for records in newest.scan(snapshot.store, snapshot.runs("files")) for info in decode_files(records))
    for _, together in groupby(infos, lambda info: _place(snapshot.state, info)):
        yield overlapping(together)


def _place(state: TableState, info: ChunksetInfo) -> str:
    return "" if state.definition.properties.global_keys else hash64_part(info.partition) + info.partition


def _repeats(snapshot: Snapshot, infos: list[ChunksetInfo]) -> Iterator[tuple[str, str]]:
    shares = sum(info.rows for info in infos) // _MOST_HASHES + 1
    for share in range(shares):
        doubtful = _repeated_hashes(snapshot, infos, share, shares)
        seen: dict[bytes, str] = {}
        for info, rows in _visible_keys(snapshot, infos) if len(doubtful) else ():
            for encoded, key in keys_with([rows], snapshot.state.definition.key_fields, doubtful):
                other = seen.setdefault(encoded, info.path)
                if other != info.path:
                    yield info.path, f"the key {key} is visible here and in {other}"
                    return


def _repeated_hashes(snapshot: Snapshot, infos: list[ChunksetInfo], share: int, shares: int) -> NDArray[np.uint64]:
    fields = snapshot.state.definition.key_fields
    hashes = [np.empty(0, np.uint64)]
    for _, rows in _visible_keys(snapshot, infos):
        found = key_hashes(rows, fields)
        hashes.append(found[found % np.uint64(shares) == share])
    values, counts = np.unique(np.concatenate(hashes), return_counts=True)
    return values[counts > 1]


def _visible_keys(snapshot: Snapshot, infos: list[ChunksetInfo]) -> Iterator[tuple[ChunksetInfo, pa.Table]]:
    for info, hidden in with_hidden(snapshot, infos):
        for rows in visible_rows(snapshot, info, hidden, snapshot.state.definition.key_fields):
            yield info, rows
