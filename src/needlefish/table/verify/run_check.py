"""One run: every byte of it, block after block; a damaged block does not hide the ones behind it."""

from collections.abc import Iterator

import pyarrow as pa

from needlefish.errors import CorruptError
from needlefish.format.bloom_record import bloom_key
from needlefish.format.checksum import checksum
from needlefish.format.metadata_key import column_key, file_key
from needlefish.format.run import IS_DELETED, KEY, RunHeader, path_of
from needlefish.format.skips_record import decode_skips
from needlefish.index.point_kinds import verify_point_run
from needlefish.index.salvage import Salvaged, read_header, salvage
from needlefish.model.log import RunRef
from needlefish.model.point_index import INDEX_KIND, UNCOVERED_KIND
from needlefish.store import ByteRange, Store
from needlefish.table.verify.report import Findings

LOST_SKIPS = "restore the run from a copy: no other object says which rows are hidden"


def check_run(store: Store, ref: RunRef) -> Findings:
    """All that can be wrong with one run, named by its path."""
    found = Findings(runs=1, bytes=ref.bytes)
    path = path_of(ref)
    # What an index does not cover is known again once it covers everything.
    rebuild = f"rebuild {ref.kind.replace(UNCOVERED_KIND, INDEX_KIND, 1)!r}"
    remedy = LOST_SKIPS if ref.kind == "skips" else rebuild
    texts: list[str] = []

    def check() -> None:
        if ref.point is not None:
            verify_point_run(store, ref)
            return
        texts.extend(_wrongs(store, ref, path))

    found.guarded(path, remedy, check)
    if texts:
        more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
        found.problem(path, texts[0] + more, remedy)
    return found


def _wrongs(store: Store, ref: RunRef, path: str) -> Iterator[str]:
    size = store.head(path).size
    if size != ref.bytes:
        yield f"{size} bytes, but the log says {ref.bytes}"
    header, schema = read_header(store, ref)
    if header.kind != ref.kind:
        yield f"holds records of kind {header.kind!r}"
    seen = _Seen(ref=ref, header=header)
    for block in salvage(store, ref, header, schema):
        yield from seen.wrongs(block)
    if not seen.skipped and seen.records != ref.records:
        yield f"{seen.records} records, but the log says {ref.records}"
    end = ref.header_bytes + header.offsets[-1]
    if ref.footer_checksum is not None and checksum(store.get_range(path, ByteRange(end, max(0, ref.bytes - end)))) != ref.footer_checksum:
        yield "the footer does not fit its checksum"


class _Seen:
    """The records so far: keys rise, and each is what its own fields hash to."""

    def __init__(self, *, ref: RunRef, header: RunHeader) -> None:
        self._ref = ref
        self._header = header
        self._last = ""
        self.records = 0
        self.skipped = False

    def wrongs(self, salvaged: Salvaged) -> Iterator[str]:
        number, block = salvaged.number, salvaged.records
        if block is None:
            self.skipped = True
            yield str(salvaged.wrong)
            return
        keys = block[KEY].to_pylist()
        self.records += len(keys)
        if not keys or keys[0] != self._header.first_keys[number]:
            yield f"block {number} does not begin with the key that the index names"
        for before, key in zip([self._last, *keys], keys, strict=False):
            if key <= before:
                yield f"block {number}: key {key} is not above the one before it"
                break
        self._last = keys[-1] if keys else self._last
        wrong = [row[KEY] for row in _named(block) if not row[IS_DELETED] and _key_of(self._ref.kind, row) not in (None, row[KEY])]
        if wrong:
            yield f"block {number}: key {wrong[0]} is not that of its record"
        if self._ref.kind == "skips":
            yield from _no_bitmaps(number, block)


def _no_bitmaps(number: int, block: pa.RecordBatch) -> Iterator[str]:
    for row in block.to_pylist():
        try:
            if not row[IS_DELETED] and not decode_skips(row).rows:
                yield f"block {number}: key {row[KEY]} hides no row"
        except CorruptError as error:
            yield f"block {number}: {error}"


def _named(block: pa.RecordBatch) -> list[dict[str, object]]:
    """Without the heavy columns."""
    light = [name for name in block.schema.names if name in (KEY, IS_DELETED, "id", "adopted", "partition", "file_name", "field_id")]
    return list(block.select(light).to_pylist())


def _key_of(kind: str, row: dict[str, object]) -> str | None:
    """The key that a record's fields give; None for kinds that are not known here."""
    partition = str(row.get("partition"))
    field_id = row.get("field_id")
    match kind.partition("/")[0]:
        case "files" | "uncovered":
            return file_key(partition, str(row["adopted"] or f"{row['id']}.parquet"))
        case "column_stats":
            return column_key(str(field_id), partition, str(row["file_name"]))
        case "skips":
            return file_key(partition, str(row["file_name"]))
        case "bloom_filters":
            return bloom_key(partition, str(row["file_name"]), field_id if isinstance(field_id, int) else None)
    return None
