"""A point index as one text: the column or columns, then settings, as in `user_id kind=cuckoo false_reads=0.01`."""

from collections.abc import Callable, Sequence

from needlefish.api import PointIndex
from needlefish.cli.arguments import names, pairs
from needlefish.errors import InvalidError

_SETTINGS: dict[str, Callable[[str], object]] = {
    "kind": str,
    "granularity": str,
    "false_reads": float,
    "expected_keys": int,
    "bits": int,
    "buckets": int,
    "name": str,
}


def index_from_text(text: str, argument: str) -> PointIndex:
    columns, *settings = text.split() or [""]
    if not names([columns]):
        raise InvalidError(f"{argument} is {text!r}; begin with a column, such as 'user_id' or 'host,port kind=cuckoo'")
    return PointIndex(names([columns]), **dict(_setting(name, value, argument) for name, value in pairs(settings, argument)))  # type: ignore[arg-type]


def indexes_from_texts(texts: Sequence[str] | None) -> list[PointIndex] | None:
    """None leaves the row key its index; the word `none` leaves nothing any."""
    if texts and [text.strip().lower() for text in texts] == ["none"]:
        return []
    return [index_from_text(text, "--index") for text in texts] if texts else None


def _setting(name: str, value: str, argument: str) -> tuple[str, object]:
    if name not in _SETTINGS:
        raise InvalidError(f"{argument} has {name}={value}, and there is no such setting; the names are {', '.join(_SETTINGS)}")
    try:
        return name, _SETTINGS[name](value)
    except ValueError as error:
        raise InvalidError(f"{argument} has {name}={value}, which is no number; write it as in {name}=16") from error
