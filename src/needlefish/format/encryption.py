"""Parquet modular encryption: one AES-GCM module, and the AAD that ties it to its place in a file.

A module is `length (4 bytes, little-endian) | nonce (12) | ciphertext | tag (16)`. Its AAD is the file's prefix and
unique id, the module type, and the ordinals of row group and column: a module moved elsewhere does not open.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from needlefish.errors import CorruptError, InvalidError

LENGTH_BYTES = 4
NONCE_BYTES = 12
TAG_BYTES = 16
# Ordinals in an AAD are signed 16-bit numbers.
MAX_ORDINALS = 2**15
OVERHEAD_BYTES = LENGTH_BYTES + NONCE_BYTES + TAG_BYTES


class ModuleType(IntEnum):
    """Parquet's own numbers, part of every AAD: do not renumber."""

    FOOTER = 0
    COLUMN_METADATA = 1
    BLOOM_FILTER_HEADER = 8
    BLOOM_FILTER_BITSET = 9


class KeyRetriever(Protocol):
    """Finds keys. `column` is a dotted path, or None for the footer; `metadata` is what the writer stored to find the key by.

    Returns None for a key that the caller does not have: columns under other keys stay readable.
    """

    def key_for(self, column: str | None, metadata: bytes) -> bytes | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKeys:
    """Keys given outright: one for the footer, which uniform encryption uses for all columns, and one per column."""

    footer: bytes | None = field(default=None, repr=False)
    columns: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def key_for(self, column: str | None, metadata: bytes) -> bytes | None:
        return self.footer if column is None else self.columns.get(column)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """What a file adds to the AAD of its modules: the prefix its writer chose (or none) and a random id."""

    prefix: bytes
    unique: bytes

    def aad(self, module: ModuleType, row_group: int = 0, column: int = 0) -> bytes:
        base = self.prefix + self.unique + bytes([module])
        if module is ModuleType.FOOTER:
            return base
        return base + _ordinal(row_group, "row group") + _ordinal(column, "column")


def _ordinal(number: int, what: str) -> bytes:
    if not 0 <= number < MAX_ORDINALS:
        raise InvalidError(
            f"{what} {number}: an encrypted file has at most {MAX_ORDINALS} of them; write larger row groups or fewer columns"
        )
    return number.to_bytes(2, "little")


def seal_module(plain: bytes, *, key: bytes, aad: bytes, nonce: bytes) -> bytes:
    """Encrypts. A nonce must never serve twice under one key: pass 12 fresh random bytes."""
    if len(nonce) != NONCE_BYTES:
        raise InvalidError(f"nonce of {len(nonce)} bytes: AES-GCM modules take {NONCE_BYTES}")
    buffer = nonce + cipher(key).encrypt(nonce, plain, aad)
    return len(buffer).to_bytes(LENGTH_BYTES, "little") + buffer


def module_length(data: bytes, what: str, at: int = 0) -> int:
    """The bytes of the module at `at`, its length field included."""
    head = data[at : at + LENGTH_BYTES]
    size = int.from_bytes(head, "little")
    if len(head) < LENGTH_BYTES or size < NONCE_BYTES + TAG_BYTES:
        raise CorruptError(f"{what}: no encrypted module at byte {at} of {len(data)}")
    return LENGTH_BYTES + size


def open_module(data: bytes, *, key: bytes, aad: bytes, what: str) -> bytes:
    """Decrypts one whole module."""
    if module_length(data, what) != len(data):
        raise CorruptError(f"{what}: {len(data)} bytes where the encrypted module takes {module_length(data, what)}")
    nonce = data[LENGTH_BYTES : LENGTH_BYTES + NONCE_BYTES]
    try:
        return cipher(key).decrypt(nonce, data[LENGTH_BYTES + NONCE_BYTES :], aad)
    except InvalidTag as error:
        raise not_authentic(what) from error


def verify_signature(plain: bytes, signature: bytes, *, key: bytes, aad: bytes, what: str) -> None:
    """Checks a plaintext footer against its nonce and tag: only the tag of its encryption is stored."""
    nonce = signature[:NONCE_BYTES]
    if cipher(key).encrypt(nonce, plain, aad)[-TAG_BYTES:] != signature[NONCE_BYTES:]:
        raise not_authentic(what)


def not_authentic(what: str) -> CorruptError:
    return CorruptError(f"{what}: it does not open under this key; the key or the AAD prefix is wrong, or bytes were changed")


def cipher(key: bytes) -> AESGCM:
    if len(key) not in (16, 24, 32):
        raise InvalidError(f"key of {len(key)} bytes: AES keys have 16, 24 or 32")
    return AESGCM(key)
