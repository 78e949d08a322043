"""The demo's rows: five days of web requests, the same on every machine, made by Spark from row numbers alone."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from needlefish.spark.names import DataFrame, SparkSession

SCHEMA = "request_id string, ts timestamp, user_id int64, host string, path string, status int32, latency_ms double"
DAYS = ("2026-11-01", "2026-11-02", "2026-11-03", "2026-11-04", "2026-11-05")

_FIRST_MS = 1_793_491_200_000  # 2026-11-01T00:00:00Z
_DAY_MS = 86_400_000
# Another seed makes other rows; every draw below also has a name of its own, so that columns do not move together.
_SEED = "needlefish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A stretch of row numbers, as one delivery."""

    first: int
    last: int


def batches(rows: int) -> tuple[Batch, Batch]:
    """Three days, then two more days with a few requests of the third that arrived late."""
    cut = rows * 3 // len(DAYS)
    return Batch(first=0, last=cut), Batch(first=cut, last=rows)


def request_id(number: int) -> str:
    """The id of a row, as `md5` makes it inside Spark."""
    return hashlib.md5(f"{_SEED}-{number}".encode(), usedforsecurity=False).hexdigest()


def requests(spark: "SparkSession", batch: Batch, rows: int) -> "DataFrame":
    """The batch as a frame; `rows` are spread evenly over the days."""
    step_ms = len(DAYS) * _DAY_MS / rows
    # One request in fifty is delivered up to twelve hours after it happened.
    late_ms = f"if({_draw('late')} < 0.02, {_draw('delay')} * {_DAY_MS // 2}, 0)"
    return spark.range(batch.first, batch.last, 1, 4).selectExpr(
        f"md5(concat('{_SEED}-', id)) as request_id",
        f"timestamp_millis(cast(greatest({_FIRST_MS}, {_FIRST_MS} + id * {step_ms!r} - {late_ms}) as bigint)) as ts",
        # A few users ask a lot, most ask rarely.
        f"cast(1 + 40000 * pow({_draw('user')}, 4) as bigint) as user_id",
        f"element_at(array('eu-1', 'eu-2', 'us-1', 'us-2', 'ap-1'), 1 + cast(5 * pow({_draw('host')}, 1.5) as int)) as host",
        f"replace(element_at(array('/', '/search', '/cart', '/items/#', '/orders/#'), 1 + cast(5 * {_draw('path')} as int)), '#', cast(900 * {_draw('item')} as int)) as path",
        f"cast(case when {_draw('status')} < 0.93 then 200 when {_draw('status')} < 0.97 then 404 when {_draw('status')} < 0.99 then 301 else 503 end as int) as status",
        f"round(3 - 45 * ln(1 - {_draw('latency')}), 1) as latency_ms",
    )


def corrections(spark: "SparkSession", rows: int) -> "DataFrame":
    """What came of requests that failed, and of the one in the middle: the same keys a second later, answered.

    One more, for the request after it, is a second older than the row that the table has. All stay in their day, since a
    key lives in its partition: those near midnight are left out.
    """
    needle, late = (f"request_id = '{request_id(rows // 2 + more)}'" for more in (0, 1))
    moment = f"timestampadd(second, if({late}, -1, 1), ts)"
    found = requests(spark, Batch(first=0, last=rows), rows).where(f"{needle} or {late} or status = 503")
    return found.where(f"to_date(ts) = to_date({moment})").selectExpr(
        "request_id",
        f"{moment} as ts",
        *("user_id", "host", "path"),
        f"if({late}, 500, 200) as status",
        f"if({late}, latency_ms, round(latency_ms + 1000, 1)) as latency_ms",
    )


def _draw(name: str) -> str:
    """A number in [0, 1) that depends on the row, the column and the seed alone."""
    return f"(pmod(xxhash64(id, '{_SEED}', '{name}'), 1000003) / 1000003.0D)"
