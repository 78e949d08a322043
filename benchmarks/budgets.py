"""The budgets, judged from the result files: what was promised beside what was measured. Nothing is failed for a miss, which
docs/performance.md explains; what has not been measured is not judged."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.budget import Budget, at_least, at_most
from benchmarks.peers import OURS

Result = Mapping[str, Any]

# Of a cold find: four requests, and one for each run of the point index and each candidate, of which there is one each.
_COLD_REQUESTS = 4 + 1 + 1
# Those of the point index that are promised to users; its own page has the others.
_INDEX = ("cuckoo, build from hashes, two cores, 100,000", "postings from column, build / Lance", "Lance's BTREE bytes / postings bytes")


def judged(results: Path) -> list[Budget]:
    """Everything that there are results for."""
    parts = (
        ("compare-requests", _finds),
        ("growth-requests", _growth),
        ("point_index", _index_growth),
        ("objectstore", _requests),
        ("upsert", _upsert),
        ("point_index", _index),
        ("skips", _skips),
    )
    found = ((results / f"{name}.json", judge) for name, judge in parts)
    return [budget for path, judge in found if path.exists() for budget in judge(json.loads(path.read_text()))]


def _finds(result: Result) -> Iterator[Budget]:
    one = median_ms(result, "find_one")
    if "lance-btree" in one:
        yield at_most("find by key, warm handle: ours / Lance's BTREE", one[OURS] / one["lance-btree"], 1, "x")
    for name, least in (("duckdb", 40), ("duckdb-cached", 40), ("spark", 1_000)):
        if name in one:
            yield at_least(f"find by key, warm handle: {_NAMES[name]} / ours", one[name] / one[OURS], least, "x")


_NAMES = {"duckdb": "DuckDB over Parquet", "duckdb-cached": "DuckDB with its metadata cache", "spark": "Spark over Parquet"}


def _growth(result: Result) -> Iterator[Budget]:
    # From 1,000 files on: of a hundred the handle has most in memory after a few dozen finds.
    few, many = next((step for step in result["steps"] if step["files"] >= 1_000), result["steps"][0]), result["steps"][-1]
    ratio = median_ms(many, "find_one")[OURS] / median_ms(few, "find_one")[OURS]
    yield at_most(f"find by key: {many['files']:,} files / {few['files']:,} files", ratio, 1.5, "x")


def _index_growth(result: Result) -> Iterator[Budget]:
    times = {row["partitions"]: row["warm"]["p50_us"] for row in result["latency"] if row["kind"] == "postings"}
    yield at_most("the index alone: 100,000 partitions / 1,000 partitions", times[100_000] / times[1_000], 1.5, "x")


def _requests(result: Result) -> Iterator[Budget]:
    cost = result["peers"][OURS]["questions"].get("find_one_cold")
    if cost is not None:
        yield at_most("requests of a find on S3, cold handle", cost["requests"], _COLD_REQUESTS, "requests")


def _upsert(result: Result) -> Iterator[Budget]:
    ours, theirs = (result["peers"][name]["runs"] for name in (OURS, "deltalake"))
    if theirs:
        yield at_most("upsert of 1%, warm session: ours / delta-rs merge", ours[-1]["seconds"] / theirs[-1]["seconds"], 0.5, "x")
        yield at_most("upsert of 1%, first of a session: ours / delta-rs merge", ours[0]["seconds"] / theirs[0]["seconds"], 0.5, "x")
    yield at_most("upsert of 1%: bytes written / bytes of the batch", ours[-1]["written_bytes"] / ours[-1]["batch_bytes"], 3, "x")


def _index(result: Result) -> Iterator[Budget]:
    yield from (Budget(**found) for found in result["budgets"] if found["what"].startswith(_INDEX))


def _skips(result: Result) -> Iterator[Budget]:
    for name, found in result["results"].items():
        yield at_most(f"5% of rows hidden / none: {name}", found["ratio"]["median"], 1.3, "x")


def median_ms(result: Result, question: str) -> dict[str, float]:
    """By peer, of those that answered."""
    peers = next(found["peers"] for found in result["questions"] if found["name"] == question)
    return {name: found["median_ms"] for name, found in peers.items() if found["status"] == "ok"}
