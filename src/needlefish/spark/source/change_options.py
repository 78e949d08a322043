"""Options of reads that ask for changes."""

from collections.abc import Mapping
from dataclasses import dataclass

from needlefish.config import StoreConfig
from needlefish.errors import InvalidError
from needlefish.spark.source.options import check_names, store_config

_CHANGES = ("readchanges", "startingversion", "endingversion", "maxversionspertrigger", "before")
LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOptions:
    """`starting` is the first version whose changes are read, None for what comes from now on; `ending` the last, None for the newest."""

    store: StoreConfig
    with_changes: bool
    starting: int | None
    ending: int | None
    most_versions: int | None
    before: bool


def asks_for_changes(options: Mapping[str, str]) -> bool:
    """Whether a read is one of changes: it says so, or says from or to which version."""
    return any(name in options for name in _CHANGES)


def change_options(options: Mapping[str, str]) -> ChangeOptions:
    """All of them, checked."""
    check_names(options, ("path", *_CHANGES))
    starting = options.get("startingVersion", "0").strip().lower()
    with_changes = _flag(options, "readChanges", default=asks_for_changes(options))
    before = _flag(options, "before", default=False)
    if before and not with_changes:
        raise InvalidError("before is true, but readChanges is false; leave one of them out")
    return ChangeOptions(
        store=store_config(options),
        with_changes=with_changes,
        starting=None if starting == LATEST else _number(starting, "startingVersion", "a version such as 0 or 17, or 'latest'", 0),
        ending=_optional(options.get("endingVersion"), "endingVersion", "a version such as 41", 0),
        most_versions=_optional(options.get("maxVersionsPerTrigger"), "maxVersionsPerTrigger", "a number above zero", 1),
        before=before,
    )


def _flag(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidError(f"{name} is {options.get(name)!r}; give true or false")
    return text == "true"


def _optional(text: str | None, name: str, remedy: str, least: int) -> int | None:
    return None if text is None else _number(text.strip(), name, remedy, least)


def _number(text: str, name: str, remedy: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise InvalidError(f"{name} is {text!r}; give {remedy}")
    return int(text)
