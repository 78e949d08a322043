"""The footer of a Parquet file that nothing is known of yet but its path."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from needlefish.errors import CorruptError, InvalidError
from needlefish.format.checksum import checksum
from needlefish.store import ByteRange, Store
from needlefish.table.chunkset_reader import guarded

_MAGIC = b"PAR1"
# Most footers fit, so that one request fetches them.
_FIRST_READ = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """A footer with its length and magic bytes, and the size of the file that ends in it."""

    # Footer length and magic bytes, which every Parquet file ends in.
    tail_bytes: ClassVar[int] = 8

    data: bytes
    file_bytes: int
    metadata: pq.FileMetaData

    @property
    def checksum(self) -> str:
        return checksum(self.data)


def read_footer(store: Store, path: str, size: int | None = None) -> Footer:
    """Two requests, or three for a long footer; a known `size` saves one."""
    size = store.head(path).size if size is None else size
    tail = store.get_range(path, ByteRange(max(0, size - _FIRST_READ), min(size, _FIRST_READ)))
    if size < len(_MAGIC) + Footer.tail_bytes or not tail.endswith(_MAGIC):
        raise InvalidError(f"{path} is no Parquet file: it does not end in {_MAGIC.decode()}; move it elsewhere, or begin its name with _")
    length = int.from_bytes(tail[-8:-4], "little") + Footer.tail_bytes
    if length > size - len(_MAGIC):
        raise CorruptError(f"{path}: the footer claims {length} bytes of a file of {size}")
    data = tail[-length:] if length <= len(tail) else store.get_range(path, ByteRange(size - length, length))
    metadata = guarded(path, lambda: pq.read_metadata(pa.BufferReader(data)))
    return Footer(data=data, file_bytes=size, metadata=metadata)
