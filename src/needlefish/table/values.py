"""Python values that a caller gave, as values of a column's type; what does not fit is refused by name."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache

import pyarrow as pa

from needlefish.errors import InvalidError

_EXACT = Context(prec=80)


def coerce_value(value: object, kind: pa.DataType, argument: str, *, texts: bool = False) -> object:
    """`value` as a Python value of `kind`. With `texts`, numbers and booleans may be written as text.

    Dates and times may always be given as ISO text. A time without a zone is read as UTC where the column is an instant.
    """
    try:
        found = _coerced(value, kind, texts=texts)
        return pa.scalar(found, kind).as_py()
    except (TypeError, ValueError, OverflowError, InvalidOperation, pa.ArrowException) as error:
        raise InvalidError(f"{argument} is {value!r}, which is no {_named(kind)}: {error}") from error


def _coerced(value: object, kind: pa.DataType, *, texts: bool) -> object:
    convert = _rule(kind)
    if convert is None:
        raise TypeError("values of this type cannot be compared")
    return convert(value, kind, texts)


def _boolean(value: object, kind: pa.DataType, texts: bool) -> object:
    if isinstance(value, bool):
        return value
    if texts and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise TypeError("give true or false")


def _integer(value: object, kind: pa.DataType, texts: bool) -> object:
    number = _number(value, texts)
    if number != int(number):
        raise ValueError("it is not whole")
    return int(number)


def _float(value: object, kind: pa.DataType, texts: bool) -> object:
    if isinstance(value, float):
        return value
    return float(value) if texts and isinstance(value, str) else float(_number(value, texts))


def _decimal(value: object, kind: pa.DataType, texts: bool) -> object:
    number = _number(value, texts)
    scaled = number.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    if scaled != number:
        raise ValueError(f"it has more than {kind.scale} decimals")
    return scaled


def _number(value: object, texts: bool) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise TypeError("give a number")
    if isinstance(value, str) and not texts:
        raise TypeError("it is a text; write the number without quotes")
    return Decimal(value)


def _string(value: object, kind: pa.DataType, texts: bool) -> object:
    if not isinstance(value, str):
        raise TypeError("give a text")
    return value


def _binary(value: object, kind: pa.DataType, texts: bool) -> object:
    if isinstance(value, str) and texts:
        return bytes.fromhex(value)
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("give bytes")
    return bytes(value)


def _date(value: object, kind: pa.DataType, texts: bool) -> object:
    if isinstance(value, str):
        return date.fromisoformat(value)
    if isinstance(value, datetime) or not isinstance(value, date):
        raise TypeError("give a date")
    return value


def _timestamp(value: object, kind: pa.DataType, texts: bool) -> object:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time.min)
    if not isinstance(value, datetime):
        raise TypeError("give a time")
    if kind.tz is None:
        if value.tzinfo is not None:
            raise ValueError("the column belongs to no zone; leave the zone out")
        return value
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


_RULES = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_string, _string),
    (pa.types.is_binary, _binary),
    (pa.types.is_date, _date),
    (pa.types.is_timestamp, _timestamp),
)


@lru_cache(maxsize=256)
def _rule(kind: pa.DataType) -> Callable[[object, pa.DataType, bool], object] | None:
    """Kept, since a find asks for the same few again and again."""
    return next((convert for applies, convert in _RULES if applies(kind)), None)


def _named(kind: pa.DataType) -> str:
    return f"value of type {kind}"
