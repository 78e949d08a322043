"""Which types a column may grow into: those that hold every value it has had, in the same key order."""

import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.model.schema import Field
from needlefish.model.types import parse_type

# Each may become any later one of its line.
_LINES = (
    ("int8", "int16", "int32", "int64"),
    ("uint8", "uint16", "uint32", "uint64"),
    ("float", "double"),
)


def check_widening(column: Field, wide: str) -> None:
    """Refuses a type that could lose a value of the column, or that would compare otherwise."""
    if wide not in _wider(column.type) and not _more_digits(column.arrow_type, parse_type(wide)):
        choices = " or ".join(_wider(column.type)) or _decimals(column.arrow_type) or "nothing else"
        raise InvalidError(f"widen[{column.name!r}] is {wide!r}; a column of type {column.type} can become {choices}")


def _wider(text: str) -> tuple[str, ...]:
    return next((line[line.index(text) + 1 :] for line in _LINES if text in line), ())


def _more_digits(narrow: pa.DataType, wide: pa.DataType) -> bool:
    if not (pa.types.is_decimal(narrow) and pa.types.is_decimal(wide)):
        return False
    return bool(narrow.scale == wide.scale and narrow.precision < wide.precision)


def _decimals(narrow: pa.DataType) -> str:
    if not pa.types.is_decimal(narrow) or narrow.precision == 38:
        return ""
    return f"decimal({narrow.precision + 1},{narrow.scale}) up to decimal(38,{narrow.scale})"
