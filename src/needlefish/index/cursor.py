"""A stream of sorted batches with a place in it."""

from bisect import bisect_right
from collections.abc import Iterator

import pyarrow as pa

from needlefish.format.run import KEY


class Cursor:
    """Hands out a stream's records up to a key; `batch` is what is at hand, None at the end."""

    def __init__(self, stream: Iterator[pa.RecordBatch]) -> None:
        self._stream = stream
        self.batch: pa.RecordBatch | None = None
        self._keys: list[str] = []
        self._advance()

    @property
    def last_key(self) -> str:
        return self._keys[-1]

    def take(self, bound: str) -> pa.RecordBatch:
        """The records at hand with keys up to `bound`, which is never above `last_key` of all cursors merged together."""
        assert self.batch is not None
        end = bisect_right(self._keys, bound)
        taken = self.batch.slice(0, end)
        if end < len(self._keys):
            self.batch, self._keys = self.batch.slice(end), self._keys[end:]
        else:
            self._advance()
        return taken

    def rest(self) -> Iterator[pa.RecordBatch]:
        """All that is left."""
        if self.batch is not None:
            yield self.batch
            yield from self._stream

    def _advance(self) -> None:
        self.batch = next((batch for batch in self._stream if batch.num_rows), None)
        self._keys = [] if self.batch is None else self.batch[KEY].to_pylist()
