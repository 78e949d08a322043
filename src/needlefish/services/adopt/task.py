"""What a task does to each file: footer and rows once, then its info, statistics and filters."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.model.chunkset import UNPARTITIONED, ChunksetId, ChunksetInfo, PartitionPath
from needlefish.model.definition import TableDefinition
from needlefish.model.entries import ChunksetEntries
from needlefish.runtime import SYSTEM, Runtime
from needlefish.services.adopt.columns import column_types, path_columns
from needlefish.services.adopt.listing import FoundFile
from needlefish.services.shares import EntryRuns, Share, share_row
from needlefish.store import Store, open_store
from needlefish.table.chunkset_entries import FilterCollector, HashedGranule, PointCollector
from needlefish.table.chunkset_reader import OpenChunkset, open_with_footer
from needlefish.table.file_columns import FileColumns
from needlefish.table.footer import Footer, read_footer
from needlefish.table.key_bounds import KeyBounds, rounded_keys
from needlefish.table.key_repeats import KeyRepeats
from needlefish.table.parquet_writer import granules_of
from needlefish.table.partition import computed_columns, partition_paths, values_of_path
from needlefish.table.row_stats import Observed, RowStats, primitive_fields

# Nothing was there before the entry that adopts: version 0 is the table's first.
_NOTHING_BEFORE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptTask:
    """A callable over batches of files that any process can run. Memory holds one granule of a file, and 16 bytes for each row."""

    definition: TableDefinition
    store: StoreConfig

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        store = open_store(self.store)
        infos: list[ChunksetInfo] = []
        runs = EntryRuns(self.definition, store, SYSTEM)
        try:
            for file in (msgspec.msgpack.decode(item, type=FoundFile) for rows in batches for item in rows["item"].to_pylist()):
                entry = adopted(store, self.definition, file, SYSTEM)
                if entry is not None:
                    infos.append(entry.info)
                    runs.add(entry)
        except InvalidError as error:
            # An engine that repeats failed tasks would find the same file again.
            yield share_row(Share(refused=str(error)))
            return
        yield share_row(Share(infos=tuple(infos), runs=runs.finish()))


def adopted(store: Store, definition: TableDefinition, file: FoundFile, runtime: Runtime) -> ChunksetEntries | None:
    """All that is recorded of one file; None if it has no rows, so that there is nothing to record."""
    footer = read_footer(store, file.path, file.size)
    chunkset = _opened(store, definition, file, footer, runtime)
    facts = _Facts(chunkset, definition)
    try:
        for number in range(footer.metadata.num_row_groups):
            facts.add(chunkset.read([number], definition.schema.fields))
    except pa.ArrowException as error:
        raise InvalidError(f"{file.path}: does not fit the table's columns: {error}") from error
    return facts.entries() if footer.metadata.num_rows else None


def _opened(store: Store, definition: TableDefinition, file: FoundFile, footer: Footer, runtime: Runtime) -> OpenChunkset:
    """The file as a chunkset whose partition is known only as far as the path says."""
    draft = ChunksetInfo(
        id=ChunksetId(runtime.new_id()),
        partition=UNPARTITIONED,
        partition_values=(),
        rows=footer.metadata.num_rows,
        bytes=footer.file_bytes,
        footer_bytes=len(footer.data),
        footer_checksum=footer.checksum,
        first_key=b"",
        last_key=b"",
        prev_max=_NOTHING_BEFORE,
        schema_id=definition.schema.id,
        granules=granules_of(footer.metadata),
        adopted=file.path,
    )
    chunkset = open_with_footer(store, definition, draft, footer.data)
    in_path = path_columns(definition, file, column_types(file.path, chunkset.file.schema_arrow, footer.metadata))
    info = replace(draft, path_columns=in_path, partition_values=_path_values(definition, file, in_path))
    return replace(chunkset, info=info, columns=FileColumns(definition=definition, info=info))


def _path_values(definition: TableDefinition, file: FoundFile, in_path: tuple[int, ...]) -> tuple[str | None, ...]:
    """The texts of partition columns that the path alone knows, checked to be values of their columns."""
    texts: list[str | None] = []
    for computed in computed_columns(definition):
        text = file.values.get(computed.source.name) if computed.source and computed.source.id in in_path else None
        try:
            computed.parse(text)
        except InvalidError as error:
            raise InvalidError(f"{file.path}: {error}") from error
        texts.append(text)
    return tuple(texts)


class _Facts:
    """Sees every granule of one file once."""

    def __init__(self, chunkset: OpenChunkset, definition: TableDefinition) -> None:
        self._chunkset = chunkset
        self._definition = definition
        self._path = chunkset.info.path
        self._stats = RowStats(primitive_fields(definition.schema))
        self._filters = FilterCollector(definition)
        self._points = PointCollector(definition)
        self._bounds = KeyBounds(definition.key_fields, is_sorted=False)
        self._repeats = KeyRepeats(definition.key_fields)
        self._computed = computed_columns(definition)
        self._partition: str | None = None

    def add(self, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        self._check_nulls(self._stats.add(rows))
        self._check_partition(rows)
        hashed = HashedGranule(rows)
        self._filters.add_hashed(hashed)
        self._points.add_hashed(hashed)
        self._bounds.add(rows)
        self._repeats.add(rows)

    def _check_nulls(self, seen: Mapping[int, Observed]) -> None:
        for field in primitive_fields(self._definition.schema):
            if seen[field.id].nulls and not field.nullable:
                what = "key column" if field.id in self._definition.key else "column"
                raise InvalidError(f"{self._path} has a null in {what} {field.name!r}; every row needs a value there")

    def _check_partition(self, rows: pa.Table) -> None:
        paths = pc.unique(partition_paths(rows.combine_chunks().to_batches()[0], self._computed)).to_pylist()
        self._partition = self._partition or paths[0]
        strangers = [path for path in paths if path != self._partition]
        if strangers:
            raise InvalidError(
                f"{self._path} has rows of the partitions {self._partition} and {strangers[0]}; a file lies in one: partition by something coarser, or write the rows anew"
            )

    def entries(self) -> ChunksetEntries:
        assert self._partition is not None, "a file with rows"
        assert self._bounds.first is not None, "a file with rows"
        assert self._bounds.last is not None, "a file with rows"
        self._check_repeats()
        first, last = rounded_keys(self._bounds.first, self._bounds.last)
        info = replace(
            self._chunkset.info,
            partition=PartitionPath(self._partition),
            partition_values=values_of_path(self._partition),
            first_key=first,
            last_key=last,
        )
        stats = self._stats.column_stats(self._chunkset.metadata)
        filters, points = self._filters.bloom_filters(), self._points.point_entries()
        return ChunksetEntries(info=info, column_stats=stats, bloom_filters=filters, point_entries=points)

    def _check_repeats(self) -> None:
        keys = self._definition.key_fields
        groups = range(self._chunkset.metadata.num_row_groups)
        repeated = self._repeats.first(self._chunkset.read([number], keys) for number in groups)
        if repeated is not None:
            raise InvalidError(
                f"{self._path} has the key {repeated} more than once; a key names one row: choose another key, or deduplicate the rows"
            )
