"""One chunkset as Parquet bytes: statistics, page index, Bloom filters for the key, granules of a fixed row count."""

from dataclasses import dataclass
from itertools import accumulate

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from needlefish.format.checksum import checksum
from needlefish.model.chunkset import Curve, Granule
from needlefish.model.definition import TableDefinition

# Where the footer of a clustered file says so, should its record be lost.
_CLUSTERED = b"needlefish.clustered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clustered:
    """What rows were clustered by, as the footer keeps it. Do not rename: these are in data files."""

    order: tuple[int, ...] = ()
    curve: Curve = "linear"


def clustered_by(metadata: pq.FileMetaData) -> Clustered:
    """What a footer says of the order of rows; without a word they are sorted by key."""
    found = (metadata.metadata or {}).get(_CLUSTERED)
    return Clustered() if found is None else msgspec.json.decode(found, type=Clustered)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetBytes:
    """A finished file and what its footer says, taken from the writer rather than read back."""

    data: bytes
    footer_bytes: int
    footer_checksum: str
    metadata: pq.FileMetaData

    @property
    def granules(self) -> tuple[Granule, ...]:
        return granules_of(self.metadata)


class ParquetBuffer:
    """Collects granules into one Parquet file in memory; its size is bounded by the table's chunkset size."""

    def __init__(self, definition: TableDefinition, first: pa.Table, order: tuple[int, ...] = (), curve: Curve = "linear") -> None:
        """`first` is the first granule, which the others do not exceed: it sizes the filters and shows which values repeat.

        `order` is what rows are clustered by, empty where they are sorted by key.
        """
        self._sink = pa.BufferOutputStream()
        self._collected: list[pq.FileMetaData] = []
        self._writer = _open_writer(self._sink, definition, first, self._collected, is_sorted=not order)
        if order:
            self._writer.add_key_value_metadata({_CLUSTERED: msgspec.json.encode(Clustered(order=order, curve=curve))})

    @property
    def bytes(self) -> int:
        return int(self._sink.tell())

    def add(self, granule: pa.Table) -> None:
        """One granule, as one row group."""
        self._writer.write_table(granule, row_group_size=granule.num_rows)

    def finish(self) -> ParquetBytes:
        self._writer.close()
        data = self._sink.getvalue().to_pybytes()
        # A Parquet file ends in the footer, its length and four magic bytes.
        footer_bytes = int.from_bytes(data[-8:-4], "little") + 8
        return ParquetBytes(
            data=data, footer_bytes=footer_bytes, footer_checksum=checksum(data[-footer_bytes:]), metadata=self._collected[0]
        )


def _open_writer(
    sink: pa.BufferOutputStream, definition: TableDefinition, first: pa.Table, collected: list[pq.FileMetaData], *, is_sorted: bool
) -> pq.ParquetWriter:
    schema = definition.schema.to_arrow()
    # Parquet has no filter for booleans: two values are not worth one.
    declared = [definition.schema.field_by_id(field_id) for field_id in definition.bloom_columns]
    filtered = dict.fromkeys(field.name for field in (*definition.key_fields, *declared) if field.type != "boolean")
    leaves = list(accumulate((_leaves(field.type) for field in schema), initial=0))
    positions = [leaves[schema.names.index(field.name)] for field in definition.key_fields]
    return pq.ParquetWriter(
        sink,
        schema,
        compression=definition.properties.compression,
        write_statistics=True,
        write_page_index=True,
        # Compression alone does not notice every flipped bit.
        write_page_checksum=True,
        store_schema=False,
        use_dictionary=[path for field in schema if _repeats(first[field.name]) for path in _leaf_paths(field.name, field.type)],
        sorting_columns=[pq.SortingColumn(position) for position in positions] if is_sorted else None,
        bloom_filter_options={name: {"ndv": first.num_rows, "fpp": definition.properties.granule_bloom_probability} for name in filtered},
        metadata_collector=collected,
    )


def _repeats(values: pa.ChunkedArray) -> bool:
    """Whether a dictionary pays. Of values that hardly repeat it takes a sixth more bytes, and reading it a third longer."""
    if pa.types.is_nested(values.type):
        return True
    return int(2 * pc.count_distinct(values).as_py()) <= len(values)


def _leaf_paths(name: str, kind: pa.DataType) -> list[str]:
    """The Parquet columns that a column becomes, by their paths."""
    if pa.types.is_map(kind):
        return [*_leaf_paths(f"{name}.key_value.key", kind.key_type), *_leaf_paths(f"{name}.key_value.value", kind.item_type)]
    if pa.types.is_list(kind):
        return _leaf_paths(f"{name}.list.element", kind.value_type)
    if pa.types.is_struct(kind):
        return [path for field in kind for path in _leaf_paths(f"{name}.{field.name}", field.type)]
    return [name]


def _leaves(kind: pa.DataType) -> int:
    """How many Parquet columns a column becomes: Parquet counts these, not ours."""
    if not pa.types.is_nested(kind):
        return 1
    return sum(_leaves(kind.field(number).type) for number in range(kind.num_fields))


def granules_of(metadata: pq.FileMetaData) -> tuple[Granule, ...]:
    """Rows and byte ranges of every row group."""
    return tuple(_granule(metadata.row_group(number)) for number in range(metadata.num_row_groups))


def _granule(group: pq.RowGroupMetaData) -> Granule:
    columns = [group.column(number) for number in range(group.num_columns)]
    starts = [column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset for column in columns]
    return Granule(rows=group.num_rows, offset=min(starts), bytes=sum(column.total_compressed_size for column in columns))
