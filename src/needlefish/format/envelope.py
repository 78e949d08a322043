"""Checksummed JSON: `{"checksum":"<16 hex digits>","body":<record>}`.

The checksum is XXH64 of the body's exact bytes, so that a flipped bit anywhere is seen before a field is believed.
The whole stays valid JSON that any tool can show.
"""

from typing import TypeVar

import msgspec
import xxhash

from needlefish.errors import CorruptError, UnsupportedError
from needlefish.model.log import FORMAT

T = TypeVar("T")

_HEAD = b'{"checksum":"'
_MIDDLE = b'","body":'
_TAIL = b"}\n"
_BODY_AT = len(_HEAD) + 16 + len(_MIDDLE)


def seal(record: object) -> bytes:
    """The bytes of one record."""
    body = msgspec.json.encode(record)
    return _HEAD + xxhash.xxh64_hexdigest(body).encode() + _MIDDLE + body + _TAIL


def unseal(data: bytes, kind: type[T], path: str) -> T:
    """The record in `data`; `path` is the object that errors name."""
    body = _checked_body(data, path)
    _check_format(body, path)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise CorruptError(f"{path}: the checksum fits but the record does not: {error}") from error


def _checked_body(data: bytes, path: str) -> bytes:
    body = data[_BODY_AT : -len(_TAIL)]
    if data[: len(_HEAD)] != _HEAD or data[len(_HEAD) + 16 : _BODY_AT] != _MIDDLE or data[-len(_TAIL) :] != _TAIL:
        raise CorruptError(f"{path}: {len(data)} bytes that do not begin and end like a checksummed record")
    if xxhash.xxh64_hexdigest(body).encode() != data[len(_HEAD) : len(_HEAD) + 16]:
        raise CorruptError(f"{path}: the checksum does not fit the {len(data)} bytes stored")
    return body


class _Versioned(msgspec.Struct):
    format: int


def _check_format(body: bytes, path: str) -> None:
    """Before anything else is believed: a newer writer may have given old names new meanings."""
    try:
        written = msgspec.json.decode(body, type=_Versioned).format
    except msgspec.MsgspecError as error:
        raise CorruptError(f"{path}: no format number: {error}") from error
    if written > FORMAT:
        raise UnsupportedError(
            f"{path}: written in format {written}, and this Needlefish reads up to {FORMAT}; upgrade needlefish to open the table"
        )
