"""Partition values as text and back: `2026-11`, `2026-11-01-13`, `true`, `-40`."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.model.definition import PartitionColumn
from needlefish.table.values import coerce_value

_HOUR = "%Y-%m-%d-%H"


def text_of(value: object, column: PartitionColumn) -> str | None:
    """The text of a typed result; equal values have equal texts."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case datetime():
            return _time_text(value, column)
        case date():
            return value.isoformat()[:7] if column.transform == "month" else value.isoformat()
        case float():
            return repr(value + 0.0)
        case Decimal():
            return f"{value:f}"
    return str(value)


def _time_text(value: datetime, column: PartitionColumn) -> str:
    if column.transform == "hour":
        # Not strftime, which writes the year 999 with three digits.
        return value.replace(tzinfo=None).isoformat(sep="-", timespec="hours")
    plain = value.replace(tzinfo=None).isoformat()
    return plain if value.tzinfo is None else plain + "Z"


def parse_text(text: str, kind: pa.DataType, column: PartitionColumn) -> object:
    """The typed result a text stands for; a text that stands for none is the caller's mistake."""
    argument = f"partitions[{column.name!r}]"
    try:
        if column.transform == "month":
            return date.fromisoformat(f"{text}-01")
        if column.transform == "hour":
            return datetime.strptime(text, _HOUR).replace(tzinfo=None if kind.tz is None else UTC)
        if pa.types.is_binary(kind):
            return bytes.fromhex(text)
    except ValueError as error:
        raise InvalidError(f"{argument} is {text!r}, which is not a {column.transform}: {error}") from error
    return coerce_value(text, kind, argument, texts=True)
