"""Merging runs of one kind into one, as a stream: of each run memory holds a few blocks, of the result its bytes."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from needlefish.index.build import put_stream
from needlefish.index.combine import Combine
from needlefish.index.newest import live, merged
from needlefish.index.run_reader import RunReader
from needlefish.model.log import RunRef
from needlefish.runtime import Runtime
from needlefish.store import Store


def merge_runs(
    store: Store, kind: str, runs: Sequence[RunRef], runtime: Runtime, *, drop_tombstones: bool, combine: Combine | None = None
) -> RunRef:
    """Puts one run that says what `runs` (newest first, stamped with their versions) say together.

    Tombstones may go only if no older run of the kind is left outside: they hide its records. A damaged run raises,
    since what it held would be lost for good. A crash after the put leaves an orphan.
    """
    readers = [RunReader(run) for run in runs]
    schema = pa.unify_schemas([reader.header(store)[1] for reader in readers])
    records = _records(store, readers, drop_tombstones=drop_tombstones, combine=combine)
    return put_stream(store, kind, schema, records, runtime, version=max(run.version or 0 for run in runs))


def _records(store: Store, readers: Sequence[RunReader], *, drop_tombstones: bool, combine: Combine | None) -> Iterator[pa.RecordBatch]:
    together = merged([reader.scan(store) for reader in readers], combine)
    return map(live, together) if drop_tombstones else together
