"""Index runs that may be damaged: their streams end early and say so, and nobody is ruled out by what was not read."""

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from needlefish.errors import CorruptError, NotFoundError, UnavailableError, UnsupportedError
from needlefish.format.run import run_path
from needlefish.index.cost import Cost
from needlefish.index.run_reader import RunReader
from needlefish.store import Store


class TolerantReader:
    """A run reader whose read errors end its streams. Only for runs that rule out, never for `files`."""

    def __init__(self, reader: RunReader, complain: Callable[[str], None]) -> None:
        self.ref = reader.ref
        self._reader = reader
        self._complain = complain

    def scan(self, store: Store) -> Iterator[pa.RecordBatch]:
        return self._ended(self._reader.scan(store))

    def with_prefixes(self, store: Store, prefixes: list[str]) -> Iterator[pa.RecordBatch]:
        return self._ended(self._reader.with_prefixes(store, prefixes))

    def get(self, store: Store, keys: list[str]) -> Iterator[pa.RecordBatch]:
        return self._ended(self._reader.get(store, keys))

    def expected_of_scan(self) -> Cost:
        return self._reader.expected_of_scan()

    def expected_of_prefixes(self, prefixes: Sequence[str], share: float) -> Cost:
        return self._reader.expected_of_prefixes(prefixes, share)

    def expected_of_get(self, keys: Sequence[str]) -> Cost:
        return self._reader.expected_of_get(keys)

    def _ended(self, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from stream
        except (CorruptError, NotFoundError, UnavailableError, UnsupportedError) as error:
            self._complain(f"{run_path(self.ref.kind, self.ref.id)}: {error}")
