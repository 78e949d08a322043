"""What an encrypted Parquet file says about its own encryption: algorithm, identity, and which key a column takes."""

from dataclasses import dataclass

from needlefish.errors import CorruptError, InvalidError, UnsupportedError
from needlefish.format.encryption import FileIdentity, KeyRetriever
from needlefish.format.thrift import CompactReader


@dataclass(frozen=True, slots=True, kw_only=True)
class FooterKeys:
    """What a caller may know of an encrypted file; nothing at all is fine for a plain one."""

    retriever: KeyRetriever | None = None
    aad_prefix: bytes | None = None

    def find(self, column: str | None, metadata: bytes) -> bytes | None:
        return None if self.retriever is None else self.retriever.key_for(column, metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """AES_GCM_V1 or AES_GCM_CTR_V1: they differ in pages alone, and filters are GCM modules in both."""

    prefix: bytes = b""
    unique: bytes = b""
    supply_prefix: bool = False

    def identity(self, keys: FooterKeys, what: str) -> FileIdentity:
        """The file's part of every AAD, with the prefix that the caller had to bring if the writer kept it out of the file."""
        if self.supply_prefix:
            if keys.aad_prefix is None:
                raise InvalidError(f"{what}: its writer kept the AAD prefix out of the file; pass aad_prefix")
            return FileIdentity(prefix=keys.aad_prefix, unique=self.unique)
        if keys.aad_prefix not in (None, self.prefix):
            raise InvalidError(f"{what}: aad_prefix {keys.aad_prefix!r} is not the file's own {self.prefix!r}; this is another file")
        return FileIdentity(prefix=self.prefix, unique=self.unique)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCrypto:
    """How one chunk is encrypted: under the footer's key, or under its own."""

    own_key: bool = False
    key_metadata: bytes = b""


def read_file_crypto(reader: CompactReader, what: str) -> tuple[Algorithm, bytes]:
    """FileCryptoMetaData, which stands before an encrypted footer: the algorithm and the footer key's metadata."""
    algorithm, metadata = None, b""
    for field, kind in reader.fields():
        if field == 1:
            algorithm = read_algorithm(reader, kind, what)
        elif field == 2:
            metadata = reader.binary(kind)
        else:
            reader.skip(kind)
    if algorithm is None:
        raise CorruptError(f"{what}: an encrypted footer that names no algorithm")
    return algorithm, metadata


def read_algorithm(reader: CompactReader, kind: int, what: str) -> Algorithm:
    """The union EncryptionAlgorithm."""
    found = None
    for member, inner in reader.struct(kind):
        if member not in (1, 2):
            raise UnsupportedError(f"{what}: encryption algorithm number {member} is not known here; a newer needlefish may read it")
        found = _read_aes(reader, inner)
    if found is None:
        raise CorruptError(f"{what}: the encryption algorithm names no member")
    return found


def _read_aes(reader: CompactReader, kind: int) -> Algorithm:
    prefix, unique, supply = b"", b"", False
    for field, inner in reader.struct(kind):
        if field == 1:
            prefix = reader.binary(inner)
        elif field == 2:
            unique = reader.binary(inner)
        elif field == 3:
            supply = reader.boolean(inner)
        else:
            reader.skip(inner)
    return Algorithm(prefix=prefix, unique=unique, supply_prefix=supply)


def read_column_crypto(reader: CompactReader, kind: int) -> ColumnCrypto:
    """The union ColumnCryptoMetaData: member 1 is the footer's key, member 2 an own key."""
    found = ColumnCrypto()
    for member, inner in reader.struct(kind):
        if member == 2:
            found = ColumnCrypto(own_key=True, key_metadata=_read_key_metadata(reader, inner))
        else:
            reader.skip(inner)
    return found


def _read_key_metadata(reader: CompactReader, kind: int) -> bytes:
    metadata = b""
    for field, inner in reader.struct(kind):
        if field == 2:
            metadata = reader.binary(inner)
        else:
            reader.skip(inner)
    return metadata
