"""One chunkset: the file against its info, and what the runs say of it against its rows."""

from needlefish.errors import CorruptError
from needlefish.model.definition import TableDefinition
from needlefish.store import Store
from needlefish.table.as_written import as_written
from needlefish.table.chunkset_reader import OpenChunkset, open_chunkset
from needlefish.table.parquet_writer import granules_of
from needlefish.table.row_stats import primitive_fields
from needlefish.table.verify.entries import FileEntries
from needlefish.table.verify.points_check import PointsCheck
from needlefish.table.verify.report import Findings
from needlefish.table.verify.rows_check import RowsCheck

LOST_DATA = "restore the file from a copy: no other object holds its rows"
_REBUILD_FILES = "rebuild 'files'"


def check_file(
    store: Store, definition: TableDefinition, entries: FileEntries, *, data: bool, points: PointsCheck | None = None
) -> Findings:
    """All that can be wrong with one file, named by its path."""
    info = entries.info
    found = Findings(files=1, rows=info.rows, bytes=info.bytes, skipped=len(entries.hidden.rows) if entries.hidden else 0)

    def check() -> None:
        size = store.head(info.path).size
        if size != info.bytes:
            raise CorruptError(f"{info.path}: {size} bytes, but it was committed with {info.bytes}")
        written = as_written(definition, info)
        _note_gaps(definition, written, entries, found)
        chunkset = open_chunkset(store, written, info)
        _check_info(chunkset, found)
        if data:
            RowsCheck(store=store, chunkset=chunkset, written=written, entries=entries, found=found, points=points).run()

    found.guarded(info.path, LOST_DATA, check)
    return found


def _check_info(chunkset: OpenChunkset, found: Findings) -> None:
    info, metadata = chunkset.info, chunkset.metadata
    if metadata.num_rows != info.rows:
        found.problem(info.path, f"{metadata.num_rows} rows, but its info says {info.rows}", _REBUILD_FILES)
    if granules_of(metadata) != info.granules:
        found.problem(info.path, "the granules are not those that its info lists", _REBUILD_FILES)


def _note_gaps(definition: TableDefinition, written: TableDefinition, entries: FileEntries, found: Findings) -> None:
    """Columns without statistics, keys and columns without a filter: the file stays a candidate for every value."""
    today = {field.id for field in definition.schema.fields}
    bare = [field.name for field in primitive_fields(written.schema) if field.id in today and field.id not in entries.column_stats]
    if bare:
        found.note(entries.info.path, f"not covered: no statistics of {', '.join(bare)}", "rebuild 'column_stats'")
    names: dict[int | None, str] = {
        None: "the row key",
        **{field_id: written.schema.field_by_id(field_id).name for field_id in written.bloom_columns},
    }
    missing = [name for field_id, name in names.items() if field_id not in entries.filters]
    if missing:
        found.note(entries.info.path, f"not covered: no filter of {', '.join(missing)}", "rebuild 'bloom_filters'")
