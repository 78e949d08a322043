"""JSON for programs: dates and times in ISO form, decimals as text so that no digit is lost, bytes in base64."""

import math
import sys
from collections.abc import Iterator

import msgspec
import pyarrow as pa

# JSON has no names for these; the texts are the ones that Spark's JSON reader takes back.
_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def print_json(value: object) -> None:
    """One object or array, indented."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def json_lines(batch: pa.RecordBatch) -> Iterator[str]:
    """One object per row, each on a line of its own."""
    floats = [field.name for field in batch.schema if _holds_floats(field.type)]
    for row in batch.to_pylist(maps_as_pydicts="strict"):
        for name in floats:
            row[name] = _finite(row[name])
        yield msgspec.json.encode(row).decode()


def json_text(value: object) -> str:
    """One value on one line."""
    return msgspec.json.encode(_finite(value)).decode()


def _holds_floats(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or any(_holds_floats(kind.field(i).type) for i in range(kind.num_fields))


def _finite(value: object) -> object:
    match value:
        case float() if not math.isfinite(value):
            return _NOT_FINITE.get(value, "NaN")
        case dict():
            return {key: _finite(part) for key, part in value.items()}
        case list():
            return [_finite(part) for part in value]
    return value
