"""Durations as people write them: `30s`, `5m`, `1h`, `7d`."""

import re

from needlefish.errors import InvalidError

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)\s*\Z")


def seconds_from(text: str, argument: str) -> float:
    """The seconds of a duration; a number alone is in seconds."""
    found = _TEXT.match(text.lower())
    if found is None or found[2] not in _UNITS:
        raise InvalidError(f"{argument} is {text!r}; write a duration such as 30s, 5m, 1h or 7d")
    return float(found[1]) * _UNITS[found[2]]


def optional_seconds(text: str | None, argument: str) -> float | None:
    return None if text is None else seconds_from(text, argument)
