"""From the rounds of one question to one line of a result: medians with their spread, and whether the rows were right."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.answers import Answer, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One peer's answer to one question. Times are of the counted rounds; bytes and requests are medians, memory the most."""

    status: Status
    reason: str = ""
    rounds: int = 0
    median_ms: float | None = None
    p10_ms: float | None = None
    p90_ms: float | None = None
    rows: int | None = None
    # Whether it gave the rows that the first peer with the same history gave; None for that first one.
    agrees: bool | None = None
    peak_bytes: int | None = None
    written_bytes: int | None = None
    kept_bytes: int | None = None
    requests: float | None = None
    read_bytes: float | None = None


def outcome(answers: Sequence[Answer], warm_ups: int, agrees: bool | None) -> Outcome:
    """A failure in any round is the outcome, whatever the others took."""
    bad = next((found for found in answers if found.status != "ok"), None)
    if bad is not None:
        return Outcome(status=bad.status, reason=bad.reason)
    counted = answers[warm_ups:] or answers
    low, middle, high = np.percentile([found.seconds * 1000 for found in counted], (10, 50, 90))
    return Outcome(
        status="ok",
        rounds=len(counted),
        median_ms=_rounded(middle),
        p10_ms=_rounded(low),
        p90_ms=_rounded(high),
        rows=counted[-1].count,
        agrees=agrees,
        peak_bytes=max(found.peak_bytes for found in counted),
        written_bytes=_median([found.written_bytes for found in counted]),
        kept_bytes=counted[-1].kept_bytes,
        requests=_median([found.requests for found in counted]),
        read_bytes=_median([found.read_bytes for found in counted]),
    )


def same(one: Answer, other: Answer) -> bool:
    """The same rows or sums; answers without rows, such as an upsert's, have nothing to compare."""
    if one.rows is not None and other.rows is not None:
        return bool(one.rows.equals(other.rows))
    return one.totals == other.totals


def _median(found: Sequence[int | None]) -> int | None:
    known = [number for number in found if number is not None]
    return int(np.median(known)) if known else None


def _rounded(value: float) -> float:
    return round(float(value), 3)
