"""The texts of options, made into values; each that is wrong is refused with the option, the text and the remedy."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import NoReturn

from needlefish.errors import InvalidError

_FLAGS = {"true": True, "false": False}


def version_from(text: str) -> int:
    if not text.strip().isdecimal():
        raise InvalidError(f"version is {text!r}; give a whole number, such as 41")
    return int(text)


def flag_from(option: str, text: str) -> bool:
    found = _FLAGS.get(text.strip().lower())
    if found is None:
        raise InvalidError(f"{option} is {text!r}; give true or false")
    return found


def timestamp_ms_from(text: str) -> int:
    """Milliseconds since 1970; a time without a zone is read as UTC."""
    if text.strip().isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidError(f"timestamp is {text!r}; give an ISO time, such as 2026-11-01T12:00:00Z, or milliseconds since 1970") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def columns_from(text: str) -> tuple[str, ...]:
    """Names between commas; names with commas in them as a JSON list."""
    remedy = 'names such as "id, ts", or a JSON list of them'
    names = _json("columns", text, remedy) if text.lstrip().startswith("[") else [name.strip() for name in text.split(",")]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidError(f"columns is {text!r}; give {remedy}")
    if len(set(names)) < len(names):
        raise InvalidError(f"columns is {text!r}, which names a column twice; name each once")
    return tuple(names)


def partitions_from(text: str) -> Mapping[str, object]:
    remedy = 'a JSON object such as {"day": "2026-11-01"} or {"region": ["eu", "us"]}'
    found = _json("partitions", text, remedy)
    if not isinstance(found, dict):
        raise InvalidError(f"partitions is {text!r}; give {remedy}")
    return found


def _json(option: str, text: str, remedy: str) -> object:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no JSON")

    exact: Callable[[str], object] = Decimal
    try:
        return json.loads(text, parse_float=exact, parse_constant=refuse)
    except ValueError as error:
        raise InvalidError(f"{option} is {text!r}, which is no JSON ({error}); give {remedy}") from error
