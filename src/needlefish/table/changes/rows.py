"""Reading shares: which keys are on both sides, then the rows themselves, some granules at a time.

Memory holds two groups of keys of `MOST_ROWS` rows, a bit for each row of the files, and 65,536 rows.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from needlefish.model.definition import TableDefinition
from needlefish.store import Store
from needlefish.table.changes.columns import ADDED, DELETE, INSERT, UPDATE, UPDATE_BEFORE
from needlefish.table.changes.shares import Part, Share
from needlefish.table.chunkset_rows import Located, rows_at
from needlefish.table.find import number_rows

# Keys compared at once. Beyond so many on both sides, those of one side are read again for each group of the other.
MOST_ROWS = 500_000


def share_rows(store: Store, definition: TableDefinition, share: Share, *, before: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a share under the columns of `definition`; `before` has those that an update replaced as well."""
    for part, both in zip(share.own, _on_both_sides(store, definition, share), strict=True):
        # Whoever does not ask for the rows that were replaced does not read them either.
        wanted = part.rows if share.came or before else part.rows - both
        for positions, rows in rows_at(store, definition, part.info, wanted, definition.schema.fields):
            yield from _labelled(rows, share, _is_in(both, positions)).to_batches()


def _labelled(rows: pa.Table, share: Share, is_update: NDArray[np.bool_]) -> pa.Table:
    labels = (UPDATE, INSERT) if share.came else (UPDATE_BEFORE, DELETE)
    columns = [pa.array(np.where(is_update, *labels), pa.string()), pa.repeat(pa.scalar(share.version, pa.int64()), rows.num_rows)]
    for field, column in zip(ADDED, columns, strict=True):
        rows = rows.append_column(field, column)
    return rows


def _on_both_sides(store: Store, definition: TableDefinition, share: Share) -> list[BitMap]:
    """Of each own part the rows whose key the other side has too."""
    found = [BitMap() for _ in share.own]
    fields = definition.key_fields
    for others in _key_groups(store, definition, share.other):
        wanted = [others[field.name].combine_chunks() for field in fields]
        for part, both in zip(share.own, found, strict=True):
            # A key that was found once need not be looked for again.
            for positions, keys in _joined(rows_at(store, definition, part.info, part.rows - both, fields)):
                numbers = number_rows(wanted, [keys[field.name] for field in fields])[1]
                both.update(positions[numbers >= 0].tolist())
    return found


def _key_groups(store: Store, definition: TableDefinition, parts: Sequence[Part]) -> Iterator[pa.Table]:
    fields = definition.key_fields
    located = (found for part in parts for found in rows_at(store, definition, part.info, part.rows, fields))
    return (keys for _, keys in _joined(located))


def _joined(located: Iterator[Located]) -> Iterator[Located]:
    """As many as are compared at once: comparing costs a look at all of the other side."""
    waiting: list[Located] = []
    rows = 0
    for found in located:
        if waiting and rows + len(found[0]) > MOST_ROWS:
            yield _together(waiting)
            waiting, rows = [], 0
        waiting.append(found)
        rows += len(found[0])
    if waiting:
        yield _together(waiting)


def _together(located: Sequence[Located]) -> Located:
    return np.concatenate([positions for positions, _ in located]), pa.concat_tables([rows for _, rows in located])


def _is_in(rows: BitMap, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Of rising positions."""
    few = rows & BitMap(range(int(positions[0]), int(positions[-1]) + 1))
    return np.isin(positions, np.asarray(few.to_array(), np.int64))
