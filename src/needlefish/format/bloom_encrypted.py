"""An encrypted Bloom filter: its header and its bitset as two modules, one after the other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from needlefish.errors import CorruptError
from needlefish.format.bloom import BloomHeader, encode_filter
from needlefish.format.encryption import NONCE_BYTES, OVERHEAD_BYTES, FileIdentity, ModuleType, module_length, open_module, seal_module


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSeal:
    """The key of one column and the place of one of its chunks: all that opening or sealing its filter needs."""

    key: bytes = field(repr=False)
    file: FileIdentity
    row_group: int
    column: int

    def encode(self, bitset: bytes, random_bytes: Callable[[int], bytes]) -> bytes:
        """Header and bitset, sealed; `random_bytes` gives nonces and must be unpredictable."""
        plain = encode_filter(bitset)
        header = plain[: len(plain) - len(bitset)]
        first = self._seal(header, ModuleType.BLOOM_FILTER_HEADER, random_bytes)
        return first + self._seal(bitset, ModuleType.BLOOM_FILTER_BITSET, random_bytes)

    def measure(self, front: bytes, what: str) -> int:
        """The bytes of both modules, told from the front that holds the first."""
        header, end = self._header(front, what)
        return end + OVERHEAD_BYTES + header.bitset_bytes

    def decode(self, data: bytes, what: str) -> memoryview:
        """The bitset in `data`, which must be one whole filter and nothing else."""
        header, end = self._header(data, what)
        bitset = self._open(data[end:], ModuleType.BLOOM_FILTER_BITSET, f"{what}, bitset")
        if len(bitset) != header.bitset_bytes:
            raise CorruptError(f"{what}: a bitset of {len(bitset)} bytes where the header says {header.bitset_bytes}")
        return memoryview(bitset)

    def _header(self, data: bytes, what: str) -> tuple[BloomHeader, int]:
        end = module_length(data, what)
        plain = self._open(data[:end], ModuleType.BLOOM_FILTER_HEADER, f"{what}, header")
        # parquet-mr seals its whole buffer of 100 bytes, zeros behind the header included: authentic, and no part of it.
        header, _ = BloomHeader.decode(plain, what)
        return header, end

    def _open(self, module: bytes, kind: ModuleType, what: str) -> bytes:
        return open_module(module, key=self.key, aad=self.file.aad(kind, self.row_group, self.column), what=what)

    def _seal(self, plain: bytes, kind: ModuleType, random_bytes: Callable[[int], bytes]) -> bytes:
        return seal_module(plain, key=self.key, aad=self.file.aad(kind, self.row_group, self.column), nonce=random_bytes(NONCE_BYTES))
