"""Partition values as one path, escaped as Hive and Spark do it: `day=2026-11-01/host=a%2Fb`."""

import re
from collections.abc import Sequence
from urllib.parse import unquote

from needlefish.model.chunkset import UNPARTITIONED, PartitionPath

NULL_TEXT = "__HIVE_DEFAULT_PARTITION__"
# A path part cannot be empty, and a lone sign never comes out of escaping, which always writes two digits after it.
_EMPTY_TEXT = "%"
# Spaces are fine inside a text, and lost at its ends by too many tools.
_UNSAFE = re.compile(r"[^A-Za-z0-9_.\-+:@ ]|\A | \Z")


def path_of(names: Sequence[str], values: Sequence[str | None]) -> PartitionPath:
    """The path below `data/` for these values, in the order of the partition key."""
    if not names:
        return UNPARTITIONED
    return PartitionPath("/".join(f"{escape(name)}={escape(value)}" for name, value in zip(names, values, strict=True)))


def escape(text: str | None) -> str:
    if text is None:
        return NULL_TEXT
    if text == "":
        return _EMPTY_TEXT
    escaped = _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), text)
    # A value that merely looks like the null mark, or like a step up or nowhere, is written so that it cannot be mistaken.
    return f"%{ord(escaped[0]):02X}{escaped[1:]}" if escaped in (NULL_TEXT, ".", "..") else escaped


def unescape(text: str) -> str | None:
    if text == NULL_TEXT:
        return None
    return "" if text == _EMPTY_TEXT else unquote(text)
