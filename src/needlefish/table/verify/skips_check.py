"""One `skips` run against the files that it speaks of: each is there, older than the run or as old, and has the rows."""

from collections.abc import Iterable, Iterator

from pyroaring import BitMap

from needlefish.format.files_record import decode_files
from needlefish.format.run import KEY, run_path
from needlefish.format.skips_record import decode_skips
from needlefish.index import newest
from needlefish.index.run_reader import RunReader
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.log import RunRef
from needlefish.table.skips import skips_of
from needlefish.table.snapshot import Snapshot
from needlefish.table.verify.report import DAMAGE, Findings

_REMEDY = "open the last version before the one that brought the run"


def check_skips(snapshot: Snapshot, ref: RunRef) -> Findings:
    """What the run says and the `files` runs contradict. Damage has been named already, by those who look at single runs."""
    found = Findings()
    path = run_path(ref.kind, ref.id)
    try:
        texts = [
            text for records in RunReader(ref).scan(snapshot.store) for text in _wrongs(snapshot, ref, newest.live(records).to_pylist())
        ]
    except DAMAGE:
        return found
    if texts:
        more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
        found.problem(path, texts[0] + more, _REMEDY)
    return found


def _wrongs(snapshot: Snapshot, ref: RunRef, rows: list[dict[str, object]]) -> Iterator[str]:
    infos = _infos(snapshot, [str(row[KEY]) for row in rows])
    unknown = [str(row[KEY]) for row in rows if row[KEY] not in infos]
    # Where the file was removed later, a newer run has a tombstone.
    dangling = skips_of(snapshot, unknown) if unknown else {}
    for row in rows:
        name = f"{row['partition']}/{row['file_name']}"
        info = infos.get(str(row[KEY]))
        if info is not None:
            yield from _contradictions(info, decode_skips(row).rows, ref.version or 0)
        elif row[KEY] in dangling:
            yield f"hides rows of {name}, which the table does not have"


def _contradictions(info: ChunksetInfo, rows: BitMap, version: int) -> Iterator[str]:
    if rows and rows.max() >= info.rows:
        yield f"hides row {rows.max()} of {info.path}, which has {info.rows}"
    # The file's own version is above the one that its writer had read.
    if version <= info.prev_max:
        yield f"hides rows of {info.path}, whose writer had read version {info.prev_max} already: the run is of version {version}"


def _infos(snapshot: Snapshot, keys: Iterable[str]) -> dict[str, ChunksetInfo]:
    found: dict[str, ChunksetInfo] = {}
    for records in newest.get(snapshot.store, snapshot.runs("files"), keys):
        found |= zip(records[KEY].to_pylist(), decode_files(records), strict=True)
    return found
