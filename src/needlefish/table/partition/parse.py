"""`partition_by`: plain columns and computed ones, as users write them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from needlefish.errors import InvalidError
from needlefish.model.definition import PartitionColumn, Transform
from needlefish.model.schema import Schema
from needlefish.model.text import Tokens

_CALENDAR = ("year", "month", "day", "hour")
_SLICE = re.compile(r"(\d+)\s*(s|m|h|d|w)")
# A century: longer slices are a slip of the keyboard.
_MOST_MICROS = 100 * 366 * 86_400 * 1_000_000
_MOST_COUNT = 1_000_000
_MOST_STEP = 2**63
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

FORMS = (
    "column, constant('x'), get_or_else(column, 'x'), round(column, n), time_slice(column, '7d'), year(column), month(column), "
    "day(column), hour(column), prefix(column, n), bucket(column, n), each with an optional `as name`"
)


def parse_partition_by(texts: Sequence[str], schema: Schema) -> tuple[PartitionColumn, ...]:
    """The partition key; names are made distinct by adding the source column's."""
    columns = [_parse(text, schema) for text in texts]
    names = Counter(column.name for column in columns)
    distinct = tuple(_renamed(column, schema) if names[column.name] > 1 else column for column in columns)
    for name, count in Counter(column.name for column in distinct).items():
        if count > 1:
            raise InvalidError(f"partition_by has {name!r} twice; drop one, or name it with `as`")
    return distinct


def _renamed(column: PartitionColumn, schema: Schema) -> PartitionColumn:
    if column.source is None or column.transform == "identity":
        return column
    return replace(column, name=f"{column.name}_{schema.field_by_id(column.source).name}")


def _parse(text: str, schema: Schema) -> PartitionColumn:
    tokens = Tokens(text, what="partition_by")
    word = tokens.word("a column or a function")
    column = _read_call(word.lower(), tokens, schema) if tokens.take("(") else _plain(word, schema)
    if tokens.take("as"):
        column = replace(column, name=tokens.word("a name"))
    tokens.end()
    return column


def _plain(name: str, schema: Schema) -> PartitionColumn:
    return PartitionColumn(name=name, transform="identity", source=schema.field(name, "partition_by").id)


def _read_call(function: str, tokens: Tokens, schema: Schema) -> PartitionColumn:
    if function == "constant":
        column = PartitionColumn(name="constant", transform="constant", argument=_text_argument(tokens))
    else:
        source = schema.field(tokens.word("a column"), "partition_by").id
        name: Transform
        if function in _CALENDAR:
            name, argument = function, None  # type: ignore[assignment]
        else:
            name, argument = _with_argument(function, tokens)
        label = schema.field_by_id(source).name if function == "get_or_else" else function
        column = PartitionColumn(name=label, transform=name, source=source, argument=argument)
    tokens.expect(")")
    return column


def _with_argument(function: str, tokens: Tokens) -> tuple[Transform, str | int]:
    readers = {
        "get_or_else": _text_argument,
        "round": _step_argument,
        "time_slice": _slice_argument,
        "prefix": _count_argument,
        "bucket": _count_argument,
    }
    if function not in readers:
        raise InvalidError(f"partition_by {tokens.text!r}: there is no function {function!r}; the forms are {FORMS}")
    tokens.expect(",")
    return function, readers[function](tokens)  # type: ignore[return-value]


def _text_argument(tokens: Tokens) -> str:
    found = tokens.literal()
    if found is None:
        raise InvalidError(f"partition_by {tokens.text!r}: expected a quoted text or a number; the forms are {FORMS}")
    return found


def _step_argument(tokens: Tokens) -> str:
    step = _text_argument(tokens)
    if not re.fullmatch(r"\d+(\.\d+)?", step) or not 0 < float(step) < _MOST_STEP:
        raise InvalidError(f"partition_by {tokens.text!r}: the step {step!r} is not a number above zero and below 2^63")
    return step


def _slice_argument(tokens: Tokens) -> int:
    """The slice in microseconds."""
    text = _text_argument(tokens)
    found = _SLICE.fullmatch(text)
    if not found or int(found[1]) == 0:
        raise InvalidError(
            f"partition_by {tokens.text!r}: the slice {text!r} is not a count and a unit; write '30s', '15m', '6h', '7d' or '2w'"
        )
    micros = int(found[1]) * _SECONDS[found[2]] * 1_000_000
    if micros > _MOST_MICROS:
        raise InvalidError(f"partition_by {tokens.text!r}: the slice {text!r} is longer than a century; write a shorter one")
    return micros


def _count_argument(tokens: Tokens) -> int:
    count = tokens.number()
    if not 1 <= count <= _MOST_COUNT:
        raise InvalidError(f"partition_by {tokens.text!r}: {count} is out of range; give a number from 1 to {_MOST_COUNT:,}")
    return count
