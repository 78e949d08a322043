"""The same finds on an object store 40 ms away: `python -m benchmarks.objectstore --files 100 --rows 20000`.

Counted by the server, the same way for every peer: requests, bytes, and what a million such finds cost at S3's list prices.
The result goes to benchmarks/results/objectstore.json.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.answers import Answer, Ask
from benchmarks.compare import arguments
from benchmarks.peers import PEERS, Place, setup_of
from benchmarks.peers.shared_files import write_shared
from benchmarks.questions import QUESTIONS
from benchmarks.record import console, keep, machine
from benchmarks.runner import PATIENCE_SECONDS
from benchmarks.seats import ProcessSeat, Seat
from benchmarks.slow_s3 import SlowS3, slow_s3
from benchmarks.workloads import WORKLOADS, Sizes, Workload

DELAY_MS = 40
# S3 Standard, us-east-1, dollars for a million requests: GET and HEAD, and PUT or LIST. Bytes within a region are free.
READ_DOLLARS, WRITE_DOLLARS = 0.40, 5.00
ASKED = ("find_one", "find_one_cold", "find_absent", "find_by_column")
_ROUNDS = 10
_WARM_UPS = 2
# Of whoever has used up the patience.
_FEWEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Of one find: medians, and dollars for a million of them by the mean of the requests."""

    status: str = "ok"
    reason: str = ""
    median_ms: float = 0.0
    p90_ms: float = 0.0
    requests: float = 0.0
    bytes: float = 0.0
    dollars_per_million: float = 0.0


def finds(seat: Seat, s3: SlowS3, asks: Sequence[Ask], warm_ups: int, patience_seconds: float = PATIENCE_SECONDS) -> Cost:
    times, requests, sent, dollars = [], [], [], []
    for number, ask in enumerate(asks):
        if number >= warm_ups + _FEWEST and sum(times) > 1000 * patience_seconds:
            break
        before = s3.counts()
        found = seat.ask(ask)
        if found.status != "ok":
            return Cost(status=found.status, reason=found.reason)
        used = s3.counts().since(before)
        times.append(found.seconds * 1000)
        requests.append(used.reads + used.writes)
        sent.append(used.sent_bytes)
        dollars.append(used.reads * READ_DOLLARS + used.writes * WRITE_DOLLARS)
    counted = slice(warm_ups, None)
    return Cost(
        median_ms=round(float(np.median(times[counted])), 2),
        p90_ms=round(float(np.percentile(times[counted], 90)), 2),
        requests=float(np.median(requests[counted])),
        bytes=float(np.median(sent[counted])),
        dollars_per_million=round(float(np.mean(dollars[counted])), 2),
    )


def measure(name: str, workload: Workload, s3: SlowS3, limit_seconds: float, patience_seconds: float) -> dict[str, Cost]:
    root = f"s3://{s3.server.bucket}"
    seat = ProcessSeat(name, workload, Place(shared=f"{root}/shared", own=f"{root}/{name}", options=s3.server.options), limit_seconds)
    try:
        s3.delay(0)
        for verb in ("load", "open"):
            ready: Answer = seat.ask(Ask(verb=verb))
            if ready.status != "ok":
                return dict.fromkeys(ASKED, Cost(status=ready.status, reason=f"{verb}: {ready.reason}"))
        s3.delay(DELAY_MS)
        return {question: finds(seat, s3, asks, warm_ups, patience_seconds) for question, asks, warm_ups in questions(workload)}
    finally:
        s3.delay(0)
        seat.leave()


def questions(workload: Workload) -> Iterator[tuple[str, list[Ask], int]]:
    """The finds of the comparison on a local disk, fewer of each: at this distance the spread is small."""
    for question in QUESTIONS:
        if question.name in ASKED:
            warm_ups = min(question.warm_ups, _WARM_UPS)
            yield question.name, question.asks(workload, _ROUNDS + warm_ups, Path()), warm_ups


def shown(results: dict[str, dict[str, Cost]], workload: Workload) -> Table:
    title = f"{workload.name} on S3, {DELAY_MS} ms a request, {workload.sizes.files:,} files x {workload.sizes.rows:,} rows"
    table = Table("question", "peer", "median ms", "p90 ms", "requests", "KB", "$ per million", title=title)
    for question in ASKED:
        for name, costs in results.items():
            cost = costs[question]
            if cost.status == "ok":
                numbers = (cost.median_ms, cost.p90_ms, cost.requests, cost.bytes / 1000, cost.dollars_per_million)
                table.add_row(question, name, *(f"{number:,.1f}" for number in numbers))
            else:
                table.add_row(question, name, f"{cost.status}: {cost.reason}"[:60])
    return table


def report(workload: Workload, results: dict[str, dict[str, Cost]]) -> dict[str, object]:
    return {
        "workload": workload.name,
        "files": workload.sizes.files,
        "rows_per_file": workload.sizes.rows,
        "delay_ms": DELAY_MS,
        "dollars": {"million_reads": READ_DOLLARS, "million_writes": WRITE_DOLLARS},
        "peers": {
            name: {"setup": setup_of(name), "questions": {question: asdict(cost) for question, cost in costs.items()}}
            for name, costs in results.items()
        },
    }


def main(words: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="requests")
    parser.add_argument("--files", type=int, default=100)
    parser.set_defaults(peers=PEERS)
    given = parser.parse_args(words)
    workload = WORKLOADS[given.workload](Sizes(files=given.files, rows=given.rows))
    before = machine()
    with slow_s3() as s3:
        root = f"s3://{s3.server.bucket}"
        write_shared(workload, Place(shared=f"{root}/shared", own=f"{root}/none", options=s3.server.options))
        results: dict[str, dict[str, Cost]] = {}
        for name in given.peers:
            results[name] = measure(name, workload, s3, given.limit_seconds, given.patience_seconds)
            # Kept after each peer, so that a long run that is stopped leaves what it has.
            path = keep(given.out or "objectstore", report(workload, results), before)
    console().print(shown(results, workload))
    console().print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
