"""`--key-from` and `--key-to`: texts, read as values of the key columns in their order."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from needlefish.errors import InvalidError
from needlefish.table.values import coerce_value

End = tuple[object, ...] | None


def parse_key_range(first: Sequence[str] | None, last: Sequence[str] | None, key: Mapping[str, pa.DataType]) -> tuple[End, End] | None:
    """The pair that `table.scan` takes; `key` has the Arrow type of each key column."""
    if not first and not last:
        return None
    return _end(first, key, "--key-from"), _end(last, key, "--key-to")


def _end(texts: Sequence[str] | None, key: Mapping[str, pa.DataType], argument: str) -> End:
    if not texts:
        return None
    if len(texts) > len(key):
        raise InvalidError(
            f"{argument} is given {len(texts)} times, but the key is {', '.join(key)}; give one value for each column, from the left"
        )
    pairs = zip(texts, key.items(), strict=False)
    return tuple(coerce_value(text, kind, f"{argument} for key column {name!r}", texts=True) for text, (name, kind) in pairs)
