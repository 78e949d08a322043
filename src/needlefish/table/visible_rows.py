"""Reading whole chunksets without their hidden rows."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from needlefish.model.chunkset import ChunksetInfo
from needlefish.model.schema import Field
from needlefish.table.chunkset_reader import open_chunkset
from needlefish.table.skips import Hidden, shown_rows, visible_granules
from needlefish.table.snapshot import Snapshot


def visible_rows(snapshot: Snapshot, info: ChunksetInfo, hidden: Hidden | None, fields: Sequence[Field]) -> Iterator[pa.Table]:
    """The rows that are not hidden, granule by granule; a chunkset without any is not opened."""
    granules = visible_granules(info, hidden)
    if not granules:
        return
    chunkset = open_chunkset(snapshot.store, snapshot.state.definition, info)
    for number in granules:
        rows = chunkset.read([number], fields)
        yield rows if hidden is None else rows.filter(pa.array(shown_rows(info, hidden, [number])))
