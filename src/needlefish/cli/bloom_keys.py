"""Keys of encrypted Parquet files from a JSON file: keys on a command line would end up in shell histories.

`{"footer": "<base64>", "columns": {"name": "<base64>"}, "aad_prefix": "<base64>"}`, every part optional.
"""

import base64

import msgspec

from needlefish.errors import InvalidError, NotFoundError
from needlefish.format.encryption import KnownKeys
from needlefish.format.encryption_metadata import FooterKeys


class _KeyFile(msgspec.Struct, forbid_unknown_fields=True):
    footer: str | None = None
    columns: dict[str, str] = {}
    aad_prefix: str | None = None


def read_keys(path: str) -> FooterKeys:
    """The keys in a file that the user names."""
    try:
        with open(path, "rb") as file:
            stored = msgspec.json.decode(file.read(), type=_KeyFile)
    except OSError as error:
        raise NotFoundError(f"--keys {path!r} cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InvalidError(f"--keys {path!r}: {error}; write footer, columns and aad_prefix as base64 texts") from error
    columns = {name: _decoded(text, path) for name, text in stored.columns.items()}
    prefix = None if stored.aad_prefix is None else _decoded(stored.aad_prefix, path)
    known = KnownKeys(footer=None if stored.footer is None else _decoded(stored.footer, path), columns=columns)
    return FooterKeys(retriever=known, aad_prefix=prefix)


def _decoded(text: str, path: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        # The text itself stays out of the message: it is a key, or was meant to be.
        raise InvalidError(f"--keys {path!r} holds a text that is not base64") from error
