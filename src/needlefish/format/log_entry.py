"""Log entries and checkpoints as objects below `_needlefish/`."""

from typing import get_args

from needlefish.errors import CorruptError, UnsupportedError
from needlefish.format.envelope import seal, unseal
from needlefish.model.log import Action, LogEntry, TableState, Version

ROOT = "_needlefish/"
LOG_PREFIX = ROOT + "log/"
CHECKPOINT_PREFIX = ROOT + "checkpoints/"
# Overwritten at every commit and only a hint: losing it costs requests, never truth.
LATEST_PATH = CHECKPOINT_PREFIX + "latest.json"

PLAN_PREFIX = ROOT + "plans/"

# Twenty digits keep byte order and number order the same for every 64-bit version.
_DIGITS = 20


def log_path(version: int) -> str:
    return f"{LOG_PREFIX}{version:0{_DIGITS}d}.json"


def checkpoint_path(version: int) -> str:
    return f"{CHECKPOINT_PREFIX}{version:0{_DIGITS}d}.json"


def plan_path(instant: str) -> str:
    return f"{PLAN_PREFIX}{instant}.json"


def checkpoint_version(path: str) -> Version | None:
    """The version a checkpoint's path names; None for the hint and for strangers."""
    name = path.removeprefix(CHECKPOINT_PREFIX).removesuffix(".json")
    return Version(int(name)) if len(name) == _DIGITS and name.isdigit() else None


def encode_entry(entry: LogEntry) -> bytes:
    return seal(entry)


def decode_entry(data: bytes, version: int) -> LogEntry:
    path = log_path(version)
    entry = unseal(data, LogEntry, path)
    if entry.version != version:
        raise CorruptError(f"{path}: holds version {entry.version}")
    if entry.action not in get_args(Action):
        raise UnsupportedError(f"{path}: the action {entry.action!r} is unknown to this Needlefish; upgrade needlefish to open the table")
    return entry


def encode_state(state: TableState) -> bytes:
    return seal(state)


def decode_state(data: bytes, path: str) -> TableState:
    return unseal(data, TableState, path)
