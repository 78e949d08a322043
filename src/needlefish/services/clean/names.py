"""Names that Needlefish gives: only these are ever taken for orphans. Whatever else lies below a table is its owner's business."""

import re
from dataclasses import dataclass
from typing import Literal

from needlefish.format.log_entry import PLAN_PREFIX, ROOT
from needlefish.model.chunkset import DATA_PREFIX
from needlefish.timeline.heartbeat import HEARTBEAT_PREFIX

Area = Literal["file", "run", "work file", "plan", "heartbeat"]

# Hex digits of an attempt, which the ids of its objects begin with, and of such an id; shorter ones say nothing of an attempt.
_ATTEMPT_DIGITS = 16
_NAMED_DIGITS = 48
_ID = r"(?P<id>[0-9a-f]{48}|[0-9a-f]{32})"
_SHORT_ID = r"(?P<id>[0-9a-f]{16}|[0-9a-f]{32}|[0-9a-f]{48})"

# What is listed, and what in it is ours.
AREAS: dict[str, tuple[Area, re.Pattern[str]]] = {
    DATA_PREFIX: ("file", re.compile(rf"{DATA_PREFIX}(?:.+/)?{_ID}\.parquet")),
    f"{ROOT}metadata/": ("run", re.compile(rf"{ROOT}metadata/.+/{_ID}\.arrow")),
    f"{ROOT}index/": ("run", re.compile(rf"{ROOT}index/.+/{_ID}\.(?:cuckoo|postings)")),
    f"{ROOT}work/": ("work file", re.compile(rf"{ROOT}work/{_ID}/.+")),
    PLAN_PREFIX: ("plan", re.compile(rf"{PLAN_PREFIX}{_SHORT_ID}\.json")),
    HEARTBEAT_PREFIX: ("heartbeat", re.compile(rf"{HEARTBEAT_PREFIX}(?:clock-)?{_SHORT_ID}")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a name says: of plans `owner` is the instant, of all else the attempt; None if it says neither."""

    area: Area
    owner: str | None


def named(prefix: str, path: str) -> Named | None:
    """What the name of an object below `prefix` says; None if it is not ours."""
    area, pattern = AREAS[prefix]
    found = pattern.fullmatch(path)
    if found is None:
        return None
    text = found["id"]
    says = area in ("plan", "heartbeat") or len(text) == _NAMED_DIGITS
    return Named(area=area, owner=(text if area == "plan" else text[:_ATTEMPT_DIGITS]) if says else None)
