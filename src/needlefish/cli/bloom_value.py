"""A value typed on the command line, read as the type of a Parquet column."""

from datetime import time
from decimal import Decimal, InvalidOperation
from uuid import UUID

import pyarrow as pa
import pyarrow.types as kinds

from needlefish.errors import InvalidError, UnsupportedError
from needlefish.format.bloom_schema import LeafColumn


def parse_value(text: str, leaf: LeafColumn) -> object:
    """`text` as a value that the column can hold; binary columns take text, or hexadecimal after 0x."""
    if leaf.kind is None:
        raise UnsupportedError(f"column {leaf.path!r} has a type whose values cannot be looked up here")
    try:
        return _parse(text, leaf.kind)
    except (ValueError, InvalidOperation, pa.ArrowException) as error:
        raise InvalidError(f"--probe {text!r} is not a value of column {leaf.path!r}, which has type {leaf.kind}") from error


def _parse(text: str, kind: pa.DataType) -> object:
    if kind == pa.uuid():
        return UUID(text).bytes
    if kinds.is_string(kind):
        return text
    if kinds.is_binary(kind) or kinds.is_fixed_size_binary(kind):
        return bytes.fromhex(text[2:]) if text.startswith("0x") else text.encode()
    if kinds.is_decimal(kind):
        return Decimal(text)
    if kinds.is_floating(kind):
        return float(text)
    if kinds.is_timestamp(kind):
        return _timestamp(text, kind)
    if kinds.is_time(kind):
        return time.fromisoformat(text)
    return pa.scalar(text).cast(kind)


def _timestamp(text: str, kind: pa.DataType) -> object:
    """A time without a zone is UTC for a column of instants; a column of wall-clock times refuses a zone."""
    if kind.tz is None:
        return pa.scalar(text).cast(kind)
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return pa.scalar(text).cast(pa.timestamp(kind.unit)).cast(kind)
