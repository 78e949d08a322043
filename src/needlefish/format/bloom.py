"""A Bloom filter as it lies in a Parquet file: a Thrift header, then the bitset.

Reads what any writer may have written, writes the one canonical form that all known writers use, byte for byte.
"""

from dataclasses import dataclass

from needlefish.errors import CorruptError, UnsupportedError
from needlefish.format.thrift import I32, STRUCT, CompactReader, encode_zigzag

BLOCK_BYTES = 32
# No writer known exceeds 20 bytes; the bound lets a reader fetch a header of unknown length in one go.
MAX_HEADER_BYTES = 1024

# After numBytes: algorithm = {BLOCK: {}}, hash = {XXHASH: {}}, compression = {UNCOMPRESSED: {}}, end.
_CANONICAL_TAIL = bytes.fromhex("1c1c00001c1c00001c1c000000")
_CANONICAL_HEAD = b"\x15"
# The only member that each union has had so far, by the field that holds the union.
_UNIONS = {2: ("algorithm", "split-block"), 3: ("hash", "xxHash"), 4: ("compression", "uncompressed")}


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomHeader:
    """Parquet's BloomFilterHeader; all that varies in it today is the size of the bitset."""

    bitset_bytes: int

    def encode(self) -> bytes:
        return _CANONICAL_HEAD + encode_zigzag(self.bitset_bytes) + _CANONICAL_TAIL

    @classmethod
    def decode(cls, data: bytes, what: str) -> tuple["BloomHeader", int]:
        """The header at the front of `data` and its length; `what` is what errors name."""
        reader = CompactReader(data, what)
        size: int | None = None
        unions = dict.fromkeys(_UNIONS, False)
        for field, kind in reader.fields():
            if field == 1:
                size = reader.number(kind, I32)
            elif field in unions:
                _read_union(reader, kind, field, what)
                unions[field] = True
            else:
                reader.skip(kind)
        if size is None or not all(unions.values()):
            raise CorruptError(f"{what}: the header lacks a required field")
        return cls(bitset_bytes=_checked_size(size, what)), reader.at


def _read_union(reader: CompactReader, kind: int, field: int, what: str) -> None:
    members = []
    for member, member_kind in reader.struct(kind):
        members.append(member)
        reader.skip(member_kind)
        if member == 1 and member_kind != STRUCT:
            raise reader.corrupt("a union's member is not a structure")
    name, supported = _UNIONS[field]
    if len(members) != 1:
        raise CorruptError(f"{what}: the {name} names {len(members)} members where one belongs")
    if members != [1]:
        raise UnsupportedError(f"{what}: {name} number {members[0]} is not known here, only {supported} is; a newer needlefish may read it")


def _checked_size(size: int, what: str) -> int:
    if size <= 0 or size % BLOCK_BYTES:
        raise CorruptError(f"{what}: the header says {size} bytes, which is not a positive multiple of {BLOCK_BYTES}")
    return size


def encode_filter(bitset: bytes) -> bytes:
    """Header and bitset, as they go into a file."""
    return BloomHeader(bitset_bytes=_checked_size(len(bitset), "filter to encode")).encode() + bitset


def measure_filter(front: bytes, what: str) -> int:
    """The bytes of the whole filter, told from its first `MAX_HEADER_BYTES` (or fewer at the end of a file)."""
    header, start = BloomHeader.decode(front, what)
    return start + header.bitset_bytes


def decode_filter(data: bytes, what: str) -> memoryview:
    """The bitset in `data`, which must be one whole filter and nothing else."""
    header, start = BloomHeader.decode(data, what)
    if len(data) != start + header.bitset_bytes:
        raise CorruptError(f"{what}: {len(data)} bytes where header and bitset take {start + header.bitset_bytes}")
    return memoryview(data)[start:]
