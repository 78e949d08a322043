"""Any backend that obstore speaks, behind our Store. One attempt per call: obstore's own retries are off.

Ours then govern: obstore would repeat a conditional put unseen, and its repetition would meet its own first write.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import GenericError

from needlefish.store.base import ByteRange, ObjectInfo
from needlefish.store.listing import Listing
from needlefish.store.paths import check_path, check_prefix
from needlefish.store.shapes import PART_BYTES
from needlefish.store.spans import read_spans
from needlefish.store.translation import Translated, starts_past_end

if TYPE_CHECKING:
    # obstore has these names in its stubs alone.
    from obstore import ObjectMeta
    from obstore.store import ObjectStore as Client

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# One page of a listing on S3 and GCS; obstore hands over what it has in pieces of this many.
_LIST_CHUNK = 1000


class ObjectStore:
    """A Store over an obstore client, below `prefix`. `ordered` says whether the backend lists in byte order by itself."""

    def __init__(self, client: "Client", *, uri: str, prefix: str = "", ordered: bool = True) -> None:
        self._client = client
        self._uri = uri
        self._base = f"{prefix}/" if prefix else ""
        self._ordered = ordered

    @property
    def uri(self) -> str:
        return self._uri

    def local_path(self, path: str) -> str | None:
        return None

    def get(self, path: str) -> bytes:
        with self._at(path):
            return obstore.get(self._client, self._key(path)).bytes().to_bytes()

    def get_range(self, path: str, span: ByteRange) -> bytes:
        if not span.length:
            return b""
        with self._at(path):
            try:
                return obstore.get_range(self._client, self._key(path), start=span.start, length=span.length).to_bytes()
            except GenericError as error:
                if starts_past_end(error):
                    return b""
                raise

    def get_ranges(self, path: str, spans: Sequence[ByteRange]) -> list[bytes]:
        # Spans that touch are joined here, so that obstore never joins: it panics if a joined range ends before one of its parts.
        return read_spans(spans, 0, lambda requests: self._fetch(path, requests))

    def head(self, path: str) -> ObjectInfo:
        with self._at(path):
            return self._info(obstore.head(self._client, self._key(path)))

    def put(self, path: str, data: bytes) -> None:
        with self._at(path):
            obstore.put(self._client, self._key(path), data, use_multipart=len(data) > PART_BYTES, chunk_size=PART_BYTES)

    def put_if_absent(self, path: str, data: bytes) -> None:
        # Always one request, whatever the size: completing a multipart upload is not conditional everywhere.
        with self._at(path):
            obstore.put(self._client, self._key(path), data, mode="create", use_multipart=False)

    def delete(self, paths: Iterable[str]) -> None:
        keys = [self._key(path) for path in paths]
        if not keys:
            return
        with self._at(f"{len(keys)} objects"):
            try:
                obstore.delete(self._client, keys)
            except FileNotFoundError:
                # Some backends stop at a missing object, and do not say which of the others are gone by now.
                self._delete_each(keys)

    def _delete_each(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                obstore.delete(self._client, key)
            except FileNotFoundError:
                continue

    def _fetch(self, path: str, requests: Sequence[ByteRange]) -> Sequence[bytes]:
        """All ranges at once, in obstore's own threads: ours may be the ones that are waiting for us."""
        starts, lengths = [span.start for span in requests], [span.length for span in requests]
        with self._at(path):
            try:
                found = obstore.get_ranges(self._client, self._key(path), starts=starts, lengths=lengths, coalesce=0)
                return [piece.to_bytes() for piece in found]
            except GenericError as error:
                if not starts_past_end(error):
                    raise
        return [self.get_range(path, span) for span in requests]

    def _listed(self, wanted: Listing) -> Iterator[ObjectInfo]:
        # A backend with an order of its own would also begin behind the offset in that order.
        offset = wanted.offset if self._ordered else None
        pages = obstore.list(self._client, wanted.folder, offset=offset, chunk_size=_LIST_CHUNK)
        return (self._info(meta) for page in pages for meta in page)

    def _info(self, meta: "ObjectMeta") -> ObjectInfo:
        modified_ms = (meta["last_modified"] - _EPOCH) // _MILLISECOND
        return ObjectInfo(path=meta["path"].removeprefix(self._base), size=meta["size"], modified_ms=modified_ms)

    def _key(self, path: str) -> str:
        return self._base + check_path(path)

    def _at(self, path: str) -> Translated:
        return Translated(f"{self._uri}/{path}")

    # Last in the class: the name hides the built-in `list` from annotations that follow.
    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[ObjectInfo]:
        wanted = Listing(base=self._base, prefix=check_prefix(prefix), start_after=start_after)
        with self._at(prefix):
            yield from wanted.select(self._listed(wanted), ordered=self._ordered)
