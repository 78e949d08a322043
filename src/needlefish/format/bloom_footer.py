"""What a Parquet footer says about Bloom filters: the leaf columns, and where the filter of each chunk lies.

Covers plain files, encrypted footers (`PARE`) and signed plaintext footers with encrypted columns. Everything else in
the footer is skipped without being built.
"""

from dataclasses import dataclass, field, replace

from needlefish.errors import CorruptError, InvalidError
from needlefish.format.bloom_chunks import ChunkFilter, StoredChunk, StoredRowGroup, read_location, read_row_groups
from needlefish.format.bloom_schema import LeafColumn, read_leaves
from needlefish.format.encryption import MAX_ORDINALS, NONCE_BYTES, TAG_BYTES, FileIdentity, ModuleType, open_module, verify_signature
from needlefish.format.encryption_metadata import Algorithm, ColumnCrypto, FooterKeys, read_algorithm, read_file_crypto
from needlefish.format.thrift import STRUCT, CompactReader

# A footer ends with its length (4 bytes) and a magic; PARE says that the footer is encrypted.
END_BYTES = 8
_PLAIN_MAGIC = b"PAR1"
_SEALED_MAGIC = b"PARE"
_SIGNATURE_BYTES = NONCE_BYTES + TAG_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class BloomFooter:
    """`chunks` holds one entry per row group and leaf, in file order; `file` is set for encrypted files."""

    leaves: tuple[LeafColumn, ...]
    chunks: tuple[ChunkFilter, ...]
    file: FileIdentity | None = None


@dataclass(slots=True)
class _FileMetadata:
    leaves: tuple[LeafColumn, ...] = ()
    groups: list[StoredRowGroup] = field(default_factory=list)
    algorithm: Algorithm | None = None
    signing_key_metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Secrets:
    """What opens the encrypted chunks of one file."""

    keys: FooterKeys
    file: FileIdentity
    footer_key: bytes | None

    def key_of(self, path: str, crypto: ColumnCrypto) -> bytes | None:
        return self.keys.find(path, crypto.key_metadata) if crypto.own_key else self.footer_key


def footer_length(end: bytes, what: str) -> tuple[int, bool]:
    """From the last eight bytes of a file: the bytes of the footer before them, and whether it is encrypted."""
    if len(end) < END_BYTES or end[-4:] not in (_PLAIN_MAGIC, _SEALED_MAGIC):
        raise CorruptError(f"{what}: not a Parquet file, or cut short: it does not end with PAR1 or PARE")
    return int.from_bytes(end[-8:-4], "little"), end[-4:] == _SEALED_MAGIC


def decode_footer(data: bytes, *, sealed: bool, keys: FooterKeys, what: str) -> BloomFooter:
    """Reads a footer, without the last eight bytes of the file."""
    if sealed:
        return _decode_sealed(data, keys, what)
    reader = CompactReader(data, what)
    stored = _read_file_metadata(reader, what)
    if stored.algorithm is None:
        return _finish(stored, None, what)
    file = stored.algorithm.identity(keys, what)
    footer_key = keys.find(None, stored.signing_key_metadata)
    _check_signature(data, reader.at, file, footer_key, what)
    return _finish(stored, _Secrets(keys=keys, file=file, footer_key=footer_key), what)


def _decode_sealed(data: bytes, keys: FooterKeys, what: str) -> BloomFooter:
    reader = CompactReader(data, what)
    algorithm, key_metadata = read_file_crypto(reader, what)
    file = algorithm.identity(keys, what)
    footer_key = keys.find(None, key_metadata)
    if footer_key is None:
        raise InvalidError(f"{what}: the footer is encrypted; pass keys that hold the footer's key")
    plain = open_module(data[reader.at :], key=footer_key, aad=file.aad(ModuleType.FOOTER), what=f"{what}, footer")
    stored = _read_file_metadata(CompactReader(plain, what), what)
    return _finish(stored, _Secrets(keys=keys, file=file, footer_key=footer_key), what)


def _check_signature(data: bytes, end: int, file: FileIdentity, key: bytes | None, what: str) -> None:
    """Anyone may read a plaintext footer; who has its key also learns whether it is the one that was written."""
    if len(data) - end != _SIGNATURE_BYTES:
        raise CorruptError(f"{what}: a footer signature of {len(data) - end} bytes where {_SIGNATURE_BYTES} belong")
    if key is not None:
        verify_signature(data[:end], data[end:], key=key, aad=file.aad(ModuleType.FOOTER), what=f"{what}, footer signature")


def _read_file_metadata(reader: CompactReader, what: str) -> _FileMetadata:
    stored = _FileMetadata()
    for number, kind in reader.fields():
        if number == 2:
            stored.leaves = read_leaves(reader, kind)
        elif number == 4:
            stored.groups = read_row_groups(reader, kind)
        elif number == 8:
            stored.algorithm = read_algorithm(reader, kind, what)
        elif number == 9:
            stored.signing_key_metadata = reader.binary(kind)
        else:
            reader.skip(kind)
    if not stored.leaves and stored.groups:
        raise CorruptError(f"{what}: row groups without a schema")
    return stored


def _finish(stored: _FileMetadata, secrets: _Secrets | None, what: str) -> BloomFooter:
    chunks: list[ChunkFilter] = []
    for group in stored.groups:
        if len(group.chunks) != len(stored.leaves):
            raise CorruptError(f"{what}: a row group of {len(group.chunks)} columns where the schema has {len(stored.leaves)}")
        chunks.extend(_open_chunk(group, column, stored, secrets, what) for column in range(len(group.chunks)))
    return BloomFooter(leaves=stored.leaves, chunks=tuple(chunks), file=secrets.file if secrets else None)


def _open_chunk(group: StoredRowGroup, column: int, stored: _FileMetadata, secrets: _Secrets | None, what: str) -> ChunkFilter:
    raw = group.chunks[column]
    plain = ChunkFilter(row_group=group.index, ordinal=group.ordinal, column=column, rows=group.rows, offset=raw.offset, length=raw.length)
    if raw.crypto is None:
        return plain
    path = stored.leaves[column].path
    if secrets is None:
        raise CorruptError(f"{what}: column {path!r} is encrypted in a file that names no algorithm")
    if not 0 <= group.ordinal < MAX_ORDINALS:
        raise CorruptError(f"{what}: row group number {group.ordinal} in an encrypted file")
    key = secrets.key_of(path, raw.crypto)
    if key is None:
        return replace(plain, locked=True)
    return _open_location(replace(plain, key=key), raw, secrets.file, f"{what}, metadata of column {path!r} in row group {group.index}")


def _open_location(chunk: ChunkFilter, raw: StoredChunk, file: FileIdentity, what: str) -> ChunkFilter:
    """The encrypted copy of a chunk's metadata is the one to believe; the plain one may be stripped or absent."""
    if raw.sealed_metadata is None or chunk.key is None:
        return chunk
    aad = file.aad(ModuleType.COLUMN_METADATA, chunk.ordinal, chunk.column)
    plain = open_module(raw.sealed_metadata, key=chunk.key, aad=aad, what=what)
    offset, length = read_location(CompactReader(plain, what), STRUCT)
    return replace(chunk, offset=offset, length=length)
