"""Tombstones: what a commit must say of chunksets that it removes, in every kind of run that names them.

A tombstone has the names of a file and none of its values.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from needlefish.format.bloom_record import BLOOM_SCHEMA, bloom_key
from needlefish.format.column_stats_record import COLUMN_STATS_SCHEMA
from needlefish.format.files_record import FILES_SCHEMA
from needlefish.format.metadata_key import column_key, file_key
from needlefish.format.run import IS_DELETED, KEY
from needlefish.format.skips_record import SKIPS_SCHEMA
from needlefish.index import newest
from needlefish.index.build import put_run
from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.definition import TableDefinition
from needlefish.model.log import RunKind, RunRef, TableState
from needlefish.runtime import Runtime
from needlefish.store import Store
from needlefish.table.as_written import as_written
from needlefish.table.row_stats import primitive_fields
from needlefish.table.skips import with_hidden
from needlefish.table.snapshot import Snapshot


def removal_runs(store: Store, state: TableState, infos: Sequence[ChunksetInfo], runtime: Runtime) -> tuple[RunRef, ...]:
    """Puts the runs that remove these chunksets of `state` from all kinds; nothing is true of them before a commit names them."""
    hidden = {file_key(info.partition, info.file_name) for info, rows in with_hidden(Snapshot(store=store, state=state), infos) if rows}
    tables = removals(state.definition, infos, hidden)
    return tuple(put_run(store, kind, records, runtime) for kind, records in tables.items() if records.num_rows)


def removals(definition: TableDefinition, infos: Iterable[ChunksetInfo], hidden: Collection[str]) -> dict[RunKind, pa.Table]:
    """The tombstones of each kind, sorted by key; `hidden` are the keys of chunksets that the `skips` runs speak of."""
    files: list[dict[str, object]] = []
    stats: list[dict[str, object]] = []
    filters: list[dict[str, object]] = []
    for info in infos:
        written = as_written(definition, info)
        files.append(file_tombstone(info))
        for field in primitive_fields(written.schema):
            stats.append(_named(column_key(str(field.id), info.partition, info.file_name), info, field_id=field.id))
        for field_id in (None, *written.bloom_columns):
            filters.append(_named(bloom_key(info.partition, info.file_name, field_id), info, field_id=field_id))
    gone = {str(row[KEY]): row for row in files}
    skips = [{**gone[key], "file_name": _file_name(gone[key])} for key in hidden]
    return {
        "files": _table(files, FILES_SCHEMA),
        "column_stats": _table(stats, COLUMN_STATS_SCHEMA),
        "bloom_filters": _table(filters, BLOOM_SCHEMA),
        "skips": _table(skips, SKIPS_SCHEMA),
    }


def uncovered_removals(store: Store, state: TableState, kind: str, infos: Mapping[str, ChunksetInfo]) -> pa.Table:
    """The same for those that a point index of `state` names as not covered."""
    readers = Snapshot(store=store, state=state).runs(kind)
    found = (key for records in newest.get(store, readers, infos) for key in records[KEY].to_pylist()) if readers else ()
    return _table([file_tombstone(infos[key]) for key in found], FILES_SCHEMA)


def file_tombstone(info: ChunksetInfo) -> dict[str, object]:
    return {
        KEY: file_key(info.partition, info.file_name),
        IS_DELETED: True,
        "id": info.id,
        "partition": info.partition,
        "adopted": info.adopted,
    }


def _file_name(row: Mapping[str, object]) -> str:
    return str(row["adopted"] or f"{row['id']}.parquet")


def _named(key: str, info: ChunksetInfo, *, field_id: int | None) -> dict[str, object]:
    return {KEY: key, IS_DELETED: True, "partition": info.partition, "file_name": info.file_name, "field_id": field_id}


def _table(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(sorted(rows, key=lambda row: str(row[KEY])), schema=schema)
