"""Which partition each row of a batch belongs to."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from needlefish.model.chunkset import UNPARTITIONED
from needlefish.model.definition import TableDefinition
from needlefish.model.schema import RESERVED
from needlefish.table.conform import conform_column
from needlefish.table.partition.path import escape, unescape
from needlefish.table.partition.text import text_of
from needlefish.table.partition.transform import Computed, computed_columns

# Rides along with rows on their way to the task that writes them; never stored.
PARTITION_COLUMN = f"{RESERVED}_partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTask:
    """A callable over Arrow batches that adds the partition path to every row."""

    definition: TableDefinition

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = computed_columns(self.definition)
        for rows in batches:
            yield rows.append_column(PARTITION_COLUMN, partition_paths(rows, columns))


def partition_paths(rows: pa.RecordBatch, columns: Sequence[Computed]) -> pa.Array:
    """The partition path of every row, as strings."""
    if not columns:
        return pa.array([UNPARTITIONED] * rows.num_rows, pa.string())
    parts = [_parts(rows, column) for column in columns]
    return reduce(lambda left, right: pc.binary_join_element_wise(left, right, "/"), parts)


def _parts(rows: pa.RecordBatch, column: Computed) -> pa.Array:
    """`name=text` of every row; each distinct value is written once."""
    source = conform_column(rows, column.source) if column.source else rows[0]
    encoded = column.evaluate(source).dictionary_encode(null_encoding="encode")
    texts = [f"{escape(column.column.name)}={escape(text_of(v, column.column))}" for v in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def values_of_path(path: str) -> tuple[str | None, ...]:
    """The values a path was made from, as text."""
    if path == UNPARTITIONED:
        return ()
    return tuple(unescape(part.partition("=")[2]) for part in path.split("/"))
